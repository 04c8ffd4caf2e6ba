#include <algorithm>

#include "base/parse_number.h"
#include "serve/front/backend.h"

namespace partita::serve {
namespace {

constexpr char kMark = '@';

bool before(const std::string& a, const std::string& b) {
  const auto x = parse_number<long>(a), y = parse_number<long>(b);
  return x && y ? *x < *y : x.has_value() != y.has_value() ? x.has_value() : a < b;
}

}  // namespace

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
    if (one.name == name) versions.push_back(std::move(one.version));
  }
  std::ranges::sort(versions, before);
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  return versions;
}

std::string service_of(const Backend& backend, const std::string& name, std::string_view version) {
  if (version.empty()) {
    if (backend.known(name)) return name;
    const std::vector<std::string> versions = versions_of(backend, name);
    return versions.empty() ? "" : name + kMark + versions.back();
  }
  const std::string marked = name + kMark + std::string(version);
  if (backend.known(marked)) return marked;
  const bool own = backend.known(name) && name_and_version(backend, name).version == version;
  return own ? name : "";
}

}  // namespace partita::serve
