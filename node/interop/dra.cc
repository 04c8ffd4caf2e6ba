#include "interop/dra.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/append.h"
#include "interop/yaml_text.h"

namespace partita::interop {
namespace {

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

std::string class_name(const hw::GpuModel& model) { return lower(model.name) + ".mig.partita"; }

// A string of CEL; the names of the catalogue hold no quotes, UUIDs are refused when they do.
std::string cel(std::string_view text) { return fmt::format("'{}'", text); }

constexpr std::string_view kAttribute = "device.attributes['gpu.nvidia.com']";

std::string selector(std::string_view indent, std::string_view expression) {
  return fmt::format("{}- cel:\n{}    expression: {}\n", indent, indent, quoted(expression));
}

// Names of profiles are those of one GPU model, so each model has its class.
std::string device_class(const hw::GpuModel& model) {
  std::string text = fmt::format(
      "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: {}\nspec:\n"
      "  selectors:\n",
      quoted(class_name(model)));
  text += selector(
      "  ", fmt::format("device.driver == 'gpu.nvidia.com' && {}.type == 'mig'", kAttribute));
  std::vector<std::string> names;
  for (const std::string& name : model.nvml_names) names.push_back(cel(name));
  if (!names.empty())
    text +=
        selector("  ", fmt::format("{}.productName in [{}]", kAttribute, joined(names, ", ")));
  return text;
}

// What the driver is told about processes that share the instance; MPS divides threads and memory
// evenly.
std::string sharing(const hw::MigProfile& profile, int processes, std::string_view indent) {
  if (processes <= 1) return "";
  std::string text = fmt::format(
      "{0}config:\n{0}- requests: [\"mig\"]\n{0}  opaque:\n{0}    driver: gpu.nvidia.com\n"
      "{0}    parameters:\n{0}      apiVersion: resource.nvidia.com/v1beta1\n"
      "{0}      kind: MigDeviceConfig\n{0}      sharing:\n{0}        strategy: MPS\n"
      "{0}        mpsConfig:\n{0}          defaultActiveThreadPercentage: {1}\n",
      indent, 100 / processes);
  if (profile.memory)
    text += fmt::format("{}          defaultPinnedDeviceMemoryLimit: \"{}Mi\"\n", indent,
                        static_cast<long>(profile.memory->value / processes));
  return text;
}

// The one request of a claim, and its sharing.
std::string devices(const GpuGeometry& gpu, const Slot& slot, std::string_view indent, bool exact) {
  const hw::MigProfile& profile = gpu.profile_of(slot);
  std::string text = fmt::format(
      "{0}devices:\n{0}  requests:\n{0}  - name: mig\n{0}    exactly:\n"
      "{0}      deviceClassName: {1}\n{0}      selectors:\n",
      indent, quoted(class_name(*gpu.board.model)));
  const std::string deeper = std::string(indent) + "      ";
  text += selector(deeper, fmt::format("{}.profile == {}", kAttribute, cel(profile.name)));
  if (exact) {
    text += selector(deeper, fmt::format("{}.parentUUID == {}", kAttribute, cel(gpu.board.uuid)));
    if (!slot.uuid.empty())
      text += selector(deeper, fmt::format("{}.uuid == {}", kAttribute, cel(slot.uuid)));
  }
  return text + sharing(profile, slot.processes, std::string(indent) + "  ");
}

std::string head(std::string_view kind, const std::string& name, const DraOptions& options) {
  return fmt::format(
      "apiVersion: resource.k8s.io/v1\nkind: {}\nmetadata:\n  namespace: {}\n  name: {}\n", kind,
      quoted(options.kube_namespace), quoted(name));
}

// The characters of a UUID, and of nothing that would end a string of CEL.
bool is_uuid(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_plain(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '/';
  });
}

// ---- templates: any instance of the kind ----

struct Kind {
  const GpuGeometry* gpu = nullptr;  // an example
  const Slot* slot = nullptr;
  std::set<int> batches;
  int instances = 0;
};
// service, GPU model, profile, processes
using Key = std::tuple<std::string, std::string, int, int>;

Result<std::string> templates(const Geometry& geometry, const DraOptions& options) {
  std::map<Key, Kind> kinds;
  for (const GpuGeometry& gpu : geometry.gpus)
    for (const Slot& slot : gpu.slots) {
      if (slot.service.empty()) continue;
      Kind& kind = kinds[{slot.service, gpu.board.model->name, slot.profile, slot.processes}];
      if (!kind.gpu) kind = {&gpu, &slot, {}, 0};
      if (slot.batch > 0) kind.batches.insert(slot.batch);
      ++kind.instances;
    }
  if (kinds.empty())
    return bad_input("",
                     "no service is on these instances, so no template is needed; --claims makes "
                     "a claim of each");
  std::string text;
  for (const auto& [key, kind] : kinds) {
    const std::string& service = std::get<0>(key);
    const std::string label = dns_label(service);
    if (label.empty())
      return bad_input(
          "", fmt::format("service '{}': its name is too long for Kubernetes", comment(service)));
    std::string profile = kind.gpu->profile_of(*kind.slot).name;
    std::ranges::replace(profile, '+', '.');
    const std::string name = fmt::format("{}.{}.{}.x{}", label, lower(kind.gpu->board.model->name),
                                         profile, std::max(kind.slot->processes, 1));
    text += "---\n" + head("ResourceClaimTemplate", name, options);
    text += fmt::format("  annotations:\n    partita/service: {}\n    partita/replicas: \"{}\"\n",
                        quoted(service), kind.instances);
    if (!kind.batches.empty())
      text += fmt::format("    partita/batch: \"{}\"\n", joined(kind.batches, ","));
    text += "spec:\n  spec:\n" + devices(*kind.gpu, *kind.slot, "    ", false);
  }
  return text;
}

// ---- claims: each instance at its place ----

Result<std::string> claims(const Geometry& geometry, const DraOptions& options) {
  std::string text;
  for (const GpuGeometry& gpu : geometry.gpus) {
    for (const Slot& slot : gpu.slots) {
      if (!is_uuid(gpu.board.uuid))
        return bad_input("", fmt::format("an exact claim names the GPU by UUID, and that of GPU {} "
                                         "is not known",
                                         gpu.board.index));
      const std::string label = slot.service.empty() ? "instance" : dns_label(slot.service);
      if (label.empty() || (!slot.uuid.empty() && !is_uuid(slot.uuid)))
        return bad_input(
            "", fmt::format("GPU {}: a name or UUID that Kubernetes cannot hold", gpu.board.index));
      const std::string name = fmt::format("{}.gpu{}.at{}", label, gpu.board.index, *slot.start);
      text += "---\n" + head("ResourceClaim", name, options);
      if (!slot.service.empty())
        text += fmt::format("  annotations:\n    partita/service: {}\n", quoted(slot.service));
      if (slot.uuid.empty())
        text += fmt::format(
            "# The driver picks the place: start {} cannot be asked for before the "
            "instance exists.\n",
            *slot.start);
      text += "spec:\n" + devices(gpu, slot, "  ", true);
    }
  }
  if (text.empty()) return bad_input("", "there is no instance to claim");
  return text;
}

}  // namespace

std::string dns_label(std::string_view name) {
  std::string label;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool dash = c == '-' && i > 0 && i + 1 < name.size() && is_plain(name[i + 1]);
    if (is_plain(c) || dash) {
      label += c;
    } else {
      // A label cannot start with a dash: "x--00" stands before, which no name gives.
      if (i == 0) label += "x--00";
      label += fmt::format("--{:02x}",
                     static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return label.size() > kMaxLabel ? "" : label;
}

Result<void> check_namespace(const std::string& name) {
  if (dns_label(name) == name && !name.empty() && name.size() <= 63) return {};
  return bad_input("--namespace", fmt::format("'{}' is not a namespace: at most 63 lower-case "
                                              "letters, digits and dashes",
                                              comment(name)));
}

Result<std::string> dra_yaml(const Geometry& geometry, const DraOptions& options) {
  TRY(check_namespace(options.kube_namespace));
  const std::string objects =
      TRY(options.exact ? claims(geometry, options) : templates(geometry, options));
  std::set<std::string> seen;
  std::string text =
      "# For the DRA driver of NVIDIA GPUs; MPS needs its feature gate MPSSupport.\n";
  for (const GpuGeometry& gpu : geometry.gpus) {
    if (gpu.slots.empty() || !seen.insert(gpu.board.model->name).second) continue;
    text += "---\n" + device_class(*gpu.board.model);
  }
  return text + objects;
}

}  // namespace partita::interop
