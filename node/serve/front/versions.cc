#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/parse_number.h"
#include "profile/buckets.h"
#include "serve/front/backend.h"

namespace partita::serve {
namespace {

constexpr char kMark = '@';

bool before(const std::string& a, const std::string& b) {
  const auto x = parse_number<long>(a), y = parse_number<long>(b);
  return x && y ? *x < *y : x.has_value() != y.has_value() ? x.has_value() : a < b;
}

std::map<profile::Length, std::string> buckets_of(const Backend& backend, std::string_view name) {
  std::map<profile::Length, std::string> buckets;
  for (const std::string& service : backend.services())
    if (const auto named = profile::bucket_name(service); named.bucket > 0 && named.name == name)
      buckets.emplace(named.bucket, service);
  return buckets;
}

}  // namespace

bool any_bucket(std::string_view asked, const std::string& service) {
  return asked != service && profile::bucket_name(service).bucket > 0;
}

Result<std::string> fitting_bucket(const Backend& backend, const std::string& longest,
                                   const ModelSpec& model, const BoundRequest& request) {
  profile::Length length = 0;
  for (std::size_t i = 0; i < request.sizes.size(); ++i) {
    const std::vector<std::int64_t>& shape =
        model.inputs[static_cast<std::size_t>(request.inputs[i])].shape;
    for (std::size_t d = 0; d < request.sizes[i].size(); ++d)
      if (shape[d] == kOpen) length = std::max(length, request.sizes[i][d]);
  }
  const profile::BucketName named = profile::bucket_name(longest);
  if (length > named.bucket)
    return bad_input("", fmt::format("a row of length {}; {} is the most that model '{}' takes",
                                     length, named.bucket, named.name));
  for (const auto& [bucket, service] : buckets_of(backend, named.name))
    if (bucket >= length && backend.ready(service) && backend.model(service)) return service;
  return longest;
}

NameAndVersion name_and_version(const Backend& backend, const std::string& service) {
  const std::size_t at = service.rfind(kMark);
  if (at != std::string::npos && at > 0 && at + 1 < service.size())
    return {service.substr(0, at), service.substr(at + 1)};
  const ModelSpec* model = backend.model(service);
  return {service, model == nullptr ? "1" : model->version};
}

std::vector<std::string> versions_of(const Backend& backend, std::string_view name) {
  std::vector<std::string> versions;
  for (const std::string& service : backend.services()) {
    auto one = name_and_version(backend, service);
    if (one.name == name || profile::bucket_name(one.name).name == name)
      versions.push_back(std::move(one.version));
  }
  std::ranges::sort(versions, before);
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  return versions;
}

std::string service_of(const Backend& backend, const std::string& name, std::string_view version) {
  if (version.empty()) {
    if (backend.known(name)) return name;
    const std::map<profile::Length, std::string> buckets = buckets_of(backend, name);
    if (!buckets.empty()) return buckets.rbegin()->second;
    const std::vector<std::string> versions = versions_of(backend, name);
    return versions.empty() ? "" : name + kMark + versions.back();
  }
  const std::string marked = name + kMark + std::string(version);
  if (backend.known(marked)) return marked;
  const std::string plain = service_of(backend, name, "");
  const bool own = !plain.empty() && name_and_version(backend, plain).version == version;
  return own ? plain : "";
}

AskedModel asked_model(const Backend& backend, const std::string& name, std::string_view version) {
  AskedModel asked{service_of(backend, name, version)};
  if (!asked.service.empty()) return asked;
  const std::string set = backend.set_of(name);
  const std::string plain = set.empty() ? "" : service_of(backend, set, version);
  return plain.empty() ? asked : AskedModel{plain, name};
}

}  // namespace partita::serve
