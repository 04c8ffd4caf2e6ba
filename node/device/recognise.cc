#include "device/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/append.h"
#include "base/words.h"
#include "hw/cpu_units.h"

namespace partita::device {
namespace {

// Catalogue figures are read off listings in GiB with two decimals.
constexpr Mib kMemoryRounding{6};

// Of the models that `matches`, the one whose total memory is nearest to the board's; null without.
template <class Matches>
const hw::GpuModel* nearest(const hw::Catalogue& catalogue, const GpuState& gpu, Matches matches) {
  const hw::GpuModel* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const hw::GpuModel& model : catalogue.gpus) {
    if (!matches(model)) continue;
    const double distance = model.total_memory
                                ? std::abs(model.total_memory->value - gpu.memory.value)
                                : std::numeric_limits<double>::max();
    if (distance < least) best = &model, least = distance;
  }
  return best;
}

// What one profile of the board says otherwise than its catalogue entry.
class Comparison {
 public:
  Comparison(const hw::MigProfile& known, const ProfileInfo& board, std::vector<std::string>& out)
      : known_(known), board_(board), out_(out) {}

  void run() {
    if (!board_.name.empty() && !named()) differs("name", board_.name, known_.name);
    number("profile id", board_.profile_id, known_.profile_id);
    number("compute slices", board_.gpcs, known_.gpcs);
    number("size", board_.size, known_.size);
    number("most instances", board_.max_instances, known_.max_instances);
    if (known_.sms) number("SMs", board_.sms, *known_.sms);
    if (board_.starts != known_.starts) differs("starts", list(board_.starts), list(known_.starts));
    if (known_.memory) memory(*known_.memory);
  }

 private:
  bool named() const {
    return board_.name == known_.name ||
           std::ranges::find(known_.aliases, board_.name) != known_.aliases.end();
  }
  static std::string list(const std::vector<int>& starts) {
    return joined(starts, ",");
  }
  void number(const char* figure, int board, int catalogue) {
    if (board != catalogue) differs(figure, std::to_string(board), std::to_string(catalogue));
  }
  void memory(Mib catalogue) {
    const auto text = [](Mib memory) { return fmt::format("{:.0f} MiB", memory.value); };
    if (std::abs(board_.memory.value - catalogue.value) > kMemoryRounding.value)
      differs("memory", text(board_.memory), text(catalogue));
  }
  void differs(const char* figure, const std::string& board, const std::string& catalogue) {
    out_.push_back(fmt::format("{}: {} {} on the board, {} in the catalogue", known_.name, figure,
                               board.empty() ? "none" : board, catalogue));
  }

  const hw::MigProfile& known_;
  const ProfileInfo& board_;
  std::vector<std::string>& out_;
};

}  // namespace

const hw::GpuModel* recognise(const hw::Catalogue& catalogue, const GpuState& gpu) {
  const auto among = [](const std::vector<std::string>& words, const std::string& word) {
    return std::ranges::any_of(words, [&](const auto& known) { return same_word(known, word); });
  };
  const hw::GpuModel* by_id = nearest(catalogue, gpu, [&](const hw::GpuModel& model) {
    return among(model.pci_device_ids, gpu.pci_device_id);
  });
  if (by_id) return by_id;
  const hw::GpuModel* by_name = nearest(
      catalogue, gpu, [&](const hw::GpuModel& model) { return among(model.nvml_names, gpu.name); });
  return by_name ? by_name : hw::cpu_units(gpu.name);
}

std::string profile_name(const hw::GpuModel& model, int profile_id) {
  const auto found = std::ranges::find(model.profiles, profile_id, &hw::MigProfile::profile_id);
  return found == model.profiles.end() ? std::string{} : found->name;
}

std::vector<std::string> differences(const hw::GpuModel& model,
                                     const std::vector<ProfileInfo>& board) {
  std::vector<std::string> out;
  for (const hw::MigProfile& known : model.profiles) {
    const auto offered = std::ranges::find(board, known.nvml_enum, &ProfileInfo::nvml_enum);
    if (offered == board.end()) {
      out.push_back(fmt::format("{}: not offered by the board", known.name));
    } else {
      Comparison(known, *offered, out).run();
    }
  }
  for (const ProfileInfo& offered : board) {
    if (std::ranges::find(model.profiles, offered.nvml_enum, &hw::MigProfile::nvml_enum) ==
        model.profiles.end())
      out.push_back(fmt::format("{}: not in the catalogue (NVML enum {}, {} SMs, {:.0f} MiB)",
                                offered.name.empty() ? "a profile" : offered.name,
                                offered.nvml_enum, offered.sms, offered.memory.value));
  }
  return out;
}

hw::GpuModel drafted(const GpuState& gpu, const std::vector<ProfileInfo>& board) {
  using enum hw::Certainty;
  hw::GpuModel model{.name = gpu.name,
                     .nvml_names = {gpu.name},
                     .architecture = "unknown",
                     .total_sms = {},
                     .total_memory = gpu.memory,
                     .profiles = {},
                     .reconfiguration = {},
                     .reconfiguration_source = "to be measured",
                     .sources = {"the board itself, by NVML"},
                     .notes = {},
                     .pci_device_ids = {gpu.pci_device_id}};
  for (const ProfileInfo& profile : board) {
    model.compute_slices = std::max(model.compute_slices, profile.gpcs);
    model.memory_slices = std::max(model.memory_slices, profile.size);
    model.profiles.push_back({.name = profile.name,
                              .nvml_enum = profile.nvml_enum,
                              .profile_id = profile.profile_id,
                              .gpcs = profile.gpcs,
                              .starts = profile.starts,
                              .size = profile.size,
                              .max_instances = profile.max_instances,
                              .sms = profile.sms,
                              .memory = profile.memory,
                              .engines = {},
                              .name_mark = A,
                              .id_mark = A,
                              .placement_mark = A,
                              .max_mark = A,
                              .sms_mark = A,
                              .memory_mark = A});
  }
  std::ranges::stable_sort(model.profiles, {}, &hw::MigProfile::gpcs);
  return model;
}

}  // namespace partita::device
