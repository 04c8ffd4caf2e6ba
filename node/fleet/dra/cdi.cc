#include "fleet/dra/cdi.h"

#include <fmt/format.h>

#include "base/document.h"
#include "base/form.h"
#include "base/parse_number.h"
#include "fleet/dra/resource_slices.h"

namespace partita::dra {
namespace {

constexpr std::string_view kClass = "claim";
constexpr std::string_view kUuid = "partita.gpu/uuid", kGpu = "partita.gpu/parent";
constexpr std::string_view kMps = "partita.gpu/mps", kCap = "partita.gpu/power-cap-watts";

std::string name_of(const std::string& uid, const std::string& device) {
  return fmt::format("{}-{}", uid, device);
}

// The name of the environment variable of a device of the pool.
std::string variable_of(const std::string& device) {
  std::string name = "PARTITA_DEVICE_";
  for (const char c : device)
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c == '-' ? '_' : c;
  return name;
}

// Several devices may meet in a container, so none says CUDA_VISIBLE_DEVICES unless it is alone:
// CUDA sees the MIG devices whose nodes are there.
void describe_edits(Form& f, const CdiDevice& one, bool alone) {
  std::vector<std::string> environment = {
      fmt::format("{}={}", variable_of(one.device), one.lease.lease.uuid)};
  if (alone) environment.push_back("CUDA_VISIBLE_DEVICES=" + one.lease.lease.uuid);
  for (const auto& [name, value] : one.environment)
    if (name != "CUDA_VISIBLE_DEVICES") environment.push_back(name + "=" + value);
  f.told("env", environment);
  const auto node = [](Form& of, const std::string& path) { of.told("path", path); };
  f.rows("deviceNodes", one.lease.nodes.paths, node, {});
  if (one.mount.empty()) return;
  const auto mount = [&](Form& of, std::size_t) {
    of.told("hostPath", one.mount);
    of.told("containerPath", one.mount);
    of.told("options", std::vector<std::string>{"rw", "nosuid", "nodev", "bind"});
  };
  f.rows("mounts", 1, mount, {});
}

void describe_share(Form& f, const CdiDevice& one) {
  f.told(kUuid, one.lease.lease.uuid);
  f.told(kGpu, one.lease.lease.gpu_uuid);
  f.told(kMps, one.share.mps ? "true" : "false");
  if (one.share.power_cap_w) f.told(kCap, fmt::format("{:g}", *one.share.power_cap_w));
}

StandingShare standing_share(const Node& annotations) {
  const auto text = [&](std::string_view key) {
    const Node* const found = annotations.find(key);
    return found == nullptr ? std::string() : found->text;
  };
  return {text(kUuid), text(kGpu), text(kMps) == "true", parse_number<double>(text(kCap))};
}

}  // namespace

bool is_cdi_file(std::string_view name) {
  return name.starts_with(fmt::format("{}-{}-", kDriver, kClass)) && name.ends_with(".json");
}

Result<std::vector<StandingShare>> parse_standing_shares(const std::string& file,
                                                         std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  const Node* devices = document->root.find("devices");
  if (devices == nullptr || devices->items.empty())
    return bad_input(document->at(document->root), "a claim's file names its devices");
  std::vector<StandingShare> all;
  for (const Node& one : devices->items)
    if (const Node* annotations = one.find("annotations"))
      all.push_back(standing_share(*annotations));
  return all;
}

std::string cdi_file_name(const std::string& uid) {
  return fmt::format("{}-{}-{}.json", kDriver, kClass, uid);
}

std::string cdi_id(const std::string& uid, const std::string& device) {
  return fmt::format("{}/{}={}", kDriver, kClass, name_of(uid, device));
}

std::string cdi_json(const std::string& uid, const std::vector<CdiDevice>& devices) {
  const auto describe = [&](Form& f) {
    f.told("cdiVersion", "0.6.0");
    f.told("kind", fmt::format("{}/{}", kDriver, kClass));
    f.rows("devices", devices,
           [&](Form& one, const CdiDevice& it) {
             one.told("name", name_of(uid, it.device));
             if (it.share != Share{})
               one.told_object("annotations", [&](Form& of) { describe_share(of, it); });
             one.told_object("containerEdits",
                             [&](Form& edits) { describe_edits(edits, it, devices.size() == 1); });
           },
           {});
  };
  return write_form(describe, Form::Style::indented);
}

}  // namespace partita::dra
