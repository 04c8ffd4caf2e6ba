#include "act/carry/occupancy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/index.h"
#include "base/split.h"
#include "act/batch/operation.h"
#include "hw/layout.h"

namespace partita::carry {
namespace {

bool usable(const device::GpuState& gpu) {
  return gpu.mig_enabled && !gpu.lost && !gpu.model.empty();
}

Result<void> check_usable(const device::GpuState& gpu) {
  const std::string subject = fmt::format("GPU {}", gpu.index);
  if (gpu.lost) return failed({ErrorCode::lost, "fell off the bus", subject});
  if (gpu.model.empty())
    return environment_error(subject, fmt::format("'{}' is not in the catalogue", gpu.name));
  if (!gpu.mig_enabled) {
    return environment_error(
        subject, fmt::format("MIG is off; `nvidia-smi -i {} -mig 1` turns it on", gpu.index));
  }
  return {};
}

// "GPU 0 A100-80GB, GPU 1 A30-24GB (MIG off)"
std::string gpus_text(const device::NodeState& node) {
  std::string text;
  for (const device::GpuState& gpu : node.gpus) {
    text += fmt::format("{}GPU {} {}{}", text.empty() ? "" : ", ", gpu.index,
                        gpu.model.empty() ? gpu.name : gpu.model,
                        gpu.lost          ? " (lost)"
                        : gpu.mig_enabled ? ""
                                          : " (MIG off)");
  }
  return text.empty() ? "no GPU" : text;
}

Result<int> parse_index(const std::string& text, const device::NodeState& node) {
  int index = -1;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc{} || rest != end || index < 0 || at(index) >= node.gpus.size()) {
    return bad_input("--gpu-index", fmt::format("'{}' is not the index of a GPU; this node has {}",
                                                text, gpus_text(node)));
  }
  return index;
}

// Placements on one GPU that come and go.
class Occupied {
 public:
  Occupied(const hw::GpuModel& model, const device::GpuState& state) : model_(model) {
    for (const device::Instance& instance : state.instances) {
      const int profile = model.profile_index(instance.profile);
      if (profile < 0) continue;
      foreign_.push_back(&instance);
      placed_.push_back({profile, instance.start});
    }
  }

  // Adds an instance; which foreign ones are in its way.
  std::vector<const device::Instance*> create(const hw::PlacedProfile& one) {
    placed_.push_back(one);
    std::set<std::size_t> found;
    for (const hw::Conflict& conflict : hw::conflicts(model_, placed_)) {
      const bool pair = conflict.first >= 0 && conflict.second >= 0;
      for (std::size_t f = 0; f < foreign_.size(); ++f)
        if (!pair || at(conflict.first) == f || at(conflict.second) == f) found.insert(f);
    }
    std::vector<const device::Instance*> blocking;
    for (const std::size_t f : found) blocking.push_back(foreign_[f]);
    return blocking;
  }
  void destroy(const hw::PlacedProfile& one) {
    const auto ours = placed_.begin() + static_cast<std::ptrdiff_t>(foreign_.size());
    const auto found = std::find(ours, placed_.end(), one);
    if (found != placed_.end()) placed_.erase(found);
  }

 private:
  const hw::GpuModel& model_;
  std::vector<const device::Instance*> foreign_;
  std::vector<hw::PlacedProfile> placed_;  // the foreign ones first
};

}  // namespace

Result<std::vector<int>> named_gpus(const std::string& flag, const device::NodeState& node) {
  std::vector<int> named;
  if (flag.empty()) return named;
  for (const std::string& word : split(flag, ',')) {
    const int index = TRY(parse_index(word, node));
    if (std::ranges::count(named, index) > 0)
      return bad_input("--gpu-index", fmt::format("GPU {} is listed twice", index));
    TRY(check_usable(node.gpus[at(index)]));
    named.push_back(index);
  }
  return named;
}

Result<std::vector<int>> usable_gpus(const device::NodeState& node) {
  std::vector<int> all;
  for (const device::GpuState& gpu : node.gpus)
    if (usable(gpu)) all.push_back(gpu.index);
  if (all.empty()) {
    return environment_error("",
                             fmt::format("no GPU of this node has MIG on: {}; `nvidia-smi -mig 1` "
                                         "turns it on",
                                         gpus_text(node)));
  }
  return all;
}

Result<std::vector<int>> matching_gpus(const plan::BatchProblem& problem,
                                       const device::NodeState& node, const std::vector<int>& named,
                                       const std::string& schedule) {
  if (!named.empty() && named.size() != problem.gpus.size()) {
    return bad_input("--gpu-index", fmt::format("names {} GPUs, {} is for {}", named.size(),
                                                schedule, problem.gpus.size()));
  }
  std::vector<int> chosen;
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const std::string& model = problem.models[at(problem.gpus[g])].name;
    const auto fits = [&](const device::GpuState& gpu) {
      const bool meant =
          named.empty() ? std::ranges::count(chosen, gpu.index) == 0 : gpu.index == named[g];
      return meant && usable(gpu) && gpu.model == model;
    };
    const auto found = std::ranges::find_if(node.gpus, fits);
    if (found == node.gpus.end()) {
      return bad_input(schedule,
                       fmt::format("its GPU {} is of model {}, and this node has {}{}", g, model,
                                   named.empty() ? "no such GPU left: " : "", gpus_text(node)));
    }
    chosen.push_back(found->index);
  }
  return chosen;
}

std::vector<std::string> blockers(const exec::Script& script, const device::NodeState& node,
                                  const hw::Catalogue& catalogue) {
  std::vector<std::string> found;
  for (const exec::ScriptGpu& gpu : script.gpus) {
    const hw::GpuModel* model = catalogue.find(gpu.model);
    const device::GpuState& state = node.gpus[at(gpu.device)];
    if (model == nullptr) continue;
    Occupied occupied(*model, state);
    std::set<const device::Instance*> in_the_way;
    for (const exec::Change& change : gpu.changes) {
      const exec::Visit& visit = script.visits[at(change.visit)];
      const hw::PlacedProfile one{model->profile_index(visit.place.profile), visit.place.start};
      if (!change.create) {
        occupied.destroy(one);
        continue;
      }
      for (const device::Instance* instance : occupied.create(one)) in_the_way.insert(instance);
    }
    for (const device::Instance& instance : state.instances)
      if (in_the_way.contains(&instance))
        found.push_back(fmt::format("GPU {}: {}", gpu.device, exec::describe(instance)));
  }
  return found;
}

}  // namespace partita::carry
