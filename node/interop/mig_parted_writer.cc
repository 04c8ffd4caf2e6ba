#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/append.h"
#include "interop/mig_parted.h"
#include "interop/yaml_text.h"

namespace partita::interop {
namespace {

constexpr std::size_t kMaxLabelBytes = 63;

// The value of a Kubernetes node label.
bool is_label(std::string_view text) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kMaxLabelBytes && alphanumeric(text.front()) &&
         alphanumeric(text.back()) && std::ranges::all_of(text, [&](char c) {
           return alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

// GPUs that one entry states.
struct Group {
  const GpuGeometry* first = nullptr;
  std::vector<std::string> filter;
  std::vector<int> devices;
};

// The PCI ids that tell this GPU from one of another model.
std::vector<std::string> filter_of(const GpuGeometry& gpu) {
  if (!gpu.board.pci_device_id.empty()) return {gpu.board.pci_device_id};
  return gpu.board.model->pci_device_ids;
}

std::vector<Group> groups_of(const Geometry& geometry) {
  std::set<const hw::GpuModel*> models;
  for (const GpuGeometry& gpu : geometry.gpus) models.insert(gpu.board.model);
  std::vector<Group> groups;
  for (const GpuGeometry& gpu : geometry.gpus) {
    const std::vector<std::string> filter =
        models.size() > 1 ? filter_of(gpu) : std::vector<std::string>{};
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.first->board.model == gpu.board.model && group.filter == filter &&
             group.first->mig_enabled == gpu.mig_enabled &&
             counts_of(*group.first) == counts_of(gpu);
    });
    Group& group = same != groups.end() ? *same : groups.emplace_back(Group{&gpu, filter, {}});
    group.devices.push_back(gpu.board.index);
  }
  return groups;
}

std::string entry_text(const Group& group) {
  std::string text = "    - ";
  if (!group.filter.empty()) {
    std::vector<std::string> filter;
    for (const std::string& id : group.filter) filter.push_back(quoted(id));
    text += fmt::format("device-filter: [{}]\n      ", joined(filter, ", "));
  }
  text += fmt::format("devices: [{}]\n", joined(group.devices, ", "));
  text += fmt::format("      mig-enabled: {}\n", group.first->mig_enabled);
  if (!group.first->mig_enabled) return text;
  const std::vector<int> counts = counts_of(*group.first);
  if (group.first->slots.empty()) return text + "      mig-devices: {}\n";
  text += "      mig-devices:\n";
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) continue;
    const std::string& name = group.first->board.model->profiles[k].name;
    text += fmt::format("        {}: {}\n", quoted(name), counts[k]);
  }
  return text;
}

}  // namespace

Result<std::string> mig_parted_yaml(const Geometry& geometry, const std::string& label) {
  if (!is_label(label))
    return bad_input("--label", fmt::format("'{}' is not a Kubernetes label value: 1 to {} "
                                            "letters, digits, '-', '_' and '.', a letter or digit "
                                            "first and last",
                                            comment(label), kMaxLabelBytes));
  if (geometry.gpus.empty()) return bad_input("", "there is no GPU to write about");
  std::string text =
      "# Counts only: mig-parted chooses the places itself. Its checkpoint keeps them.\n"
      "version: v1\nmig-configs:\n";
  text += fmt::format("  {}:\n", quoted(label));
  for (const Group& group : groups_of(geometry)) text += entry_text(group);
  return text;
}

}  // namespace partita::interop
