#include "interop/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/document.h"
#include "base/parse_number.h"

namespace partita::interop {
namespace {

struct TypeCount {
  std::string type;
  int count = 0;
  const hw::GpuModel* model = nullptr;
};

// As Slurm's own detection calls a whole GPU: the product name in lower case with underscores.
std::string gpu_type(const hw::GpuModel& model) {
  std::string type = model.nvml_names.empty() ? model.name : model.nvml_names.front();
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    if (c == ' ') c = '_';
  }
  return type;
}

bool is_node_name(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// Types in order of their first GPU and then of the catalogue.
Result<std::vector<TypeCount>> types_of(const Geometry& geometry) {
  std::vector<TypeCount> types;
  const auto count = [&](const std::string& type, const hw::GpuModel* model, int more) {
    const auto found = std::ranges::find(types, type, &TypeCount::type);
    if (found == types.end()) {
      types.push_back({type, more, model});
      return true;
    }
    found->count += more;
    return found->model == model;
  };
  for (const GpuGeometry& gpu : geometry.gpus) {
    const hw::GpuModel* model = gpu.board.model;
    if (!gpu.mig_enabled) count(gpu_type(*model), model, 1);
    const std::vector<int> counts = counts_of(gpu);
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const std::string& name = model->profiles[k].name;
      if (counts[k] > 0 && !count(name, model, counts[k]))
        return bad_input("",
                         fmt::format("{} is a profile of two GPU models of the node; one type of "
                                     "Slurm cannot be both",
                                     name));
    }
  }
  if (types.empty()) return bad_input("", "there is no instance for Slurm to offer");
  return types;
}

std::string gres_value(const std::vector<TypeCount>& types) {
  std::string text;
  for (const TypeCount& type : types)
    text += fmt::format("{}gpu:{}:{}", text.empty() ? "" : ",", type.type, type.count);
  return text;
}

Result<std::string> device_files(const GpuGeometry& gpu, const Slot& slot,
                                 const MigMinors& minors) {
  const std::string where =
      fmt::format("GPU {}: {} at {}", gpu.board.index, gpu.profile_of(slot).name, *slot.start);
  if (!slot.gi_id || !slot.ci_id)
    return bad_input("", where + " does not exist yet, so it has no device files");
  const std::string instance = fmt::format("gpu{}/gi{}", gpu.board.index, *slot.gi_id);
  std::string files = fmt::format("/dev/nvidia{}", gpu.board.index);
  for (const std::string& capability :
       {instance + "/access", fmt::format("{}/ci{}/access", instance, *slot.ci_id)}) {
    const auto minor = minors.find(capability);
    if (minor == minors.end())
      return bad_input("", fmt::format("{}: the minor numbers have no {}", where, capability));
    files += fmt::format(",/dev/nvidia-caps/nvidia-cap{}", minor->second);
  }
  return files;
}

Result<std::string> gres_conf(const Geometry& geometry, const SlurmOptions& options) {
  if (options.minors.empty())
    return fmt::format("NodeName={} AutoDetect=nvml\n", options.node_name);
  std::string text;
  for (const GpuGeometry& gpu : geometry.gpus) {
    if (!gpu.mig_enabled)
      text += fmt::format("NodeName={} Name=gpu Type={} File=/dev/nvidia{}\n", options.node_name,
                          gpu_type(*gpu.board.model), gpu.board.index);
    for (const Slot& slot : gpu.slots) {
      const std::string files = TRY(device_files(gpu, slot, options.minors));
      text += fmt::format("NodeName={} Name=gpu Type={} MultipleFiles={}\n", options.node_name,
                          gpu.profile_of(slot).name, files);
    }
  }
  return text;
}

}  // namespace

Result<MigMinors> parse_mig_minors(const std::string& file, std::string_view text) {
  TRY(check_text(file, text));
  MigMinors minors;
  for (int line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (row.empty()) continue;
    const auto space = row.find(' ');
    std::optional<int> minor;
    if (space != std::string_view::npos && space > 0)
      minor = parse_number<int>(row.substr(space + 1));
    if (!minor || *minor < 0)
      return bad_input(fmt::format("{}:{}", file, line),
                       "a capability and its minor number are needed: gpu0/gi1/access 12");
    if (!minors.emplace(row.substr(0, space), *minor).second)
      return bad_input(fmt::format("{}:{}", file, line), "a capability is listed twice");
  }
  return minors;
}

Result<std::string> slurm_lines(const Geometry& geometry, const SlurmOptions& options) {
  if (!is_node_name(options.node_name))
    return bad_input("--node-name", fmt::format("'{}' is not a node name", options.node_name));
  const std::vector<TypeCount> types = TRY(types_of(geometry));
  const std::string gres = TRY(gres_conf(geometry, options));
  const std::string value = gres_value(types);
  const std::string node =
      fmt::format("GresTypes=gpu\nNodeName={} Gres={}\n", options.node_name, value);
  const std::string dynamic =
      fmt::format("slurmd -Z -N {} --conf \"Gres={}\"\n", options.node_name, value);
  if (options.part == SlurmPart::gres) return gres;
  if (options.part == SlurmPart::node) return node;
  if (options.part == SlurmPart::dynamic) return dynamic;
  return "# gres.conf\n" + gres + "# slurm.conf: add CPUs, RealMemory and the like to the line\n" +
         node + "# or instead of that line, a dynamic node\n" + dynamic;
}

}  // namespace partita::interop
