#include "fleet/dra/cdi.h"

#include <fmt/format.h>

#include "base/form.h"
#include "fleet/dra/resource_slices.h"

namespace partita::dra {
namespace {

constexpr std::string_view kClass = "claim";

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
  f.told("env", environment);
  const auto node = [](Form& of, const std::string& path) { of.told("path", path); };
  f.rows("deviceNodes", one.lease.nodes.paths, node, {});
}

}  // namespace

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
             one.told_object("containerEdits",
                             [&](Form& edits) { describe_edits(edits, it, devices.size() == 1); });
           },
           {});
  };
  return write_form(describe, Form::Style::indented);
}

}  // namespace partita::dra
