#include "actuate/gpu_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "actuate/matching.h"
#include "base/check.h"
#include "base/index.h"

namespace partita::actuate {
namespace {

// The levels of a pair of GPUs, most important last, in one number: with kMaxChangeGpus GPUs of at
// most eight compute slices, each level sums to less than the unit of the next.
constexpr std::int64_t kIndexKept = 1;
constexpr std::int64_t kEmpty = std::int64_t{1} << 10;
constexpr std::int64_t kInstanceKept = std::int64_t{1} << 21;
constexpr std::int64_t kBusyKept = std::int64_t{1} << 34;
constexpr std::int64_t kSegmentKept = std::int64_t{1} << 47;
constexpr std::int64_t kMigOff = std::int64_t{1} << 51;  // rather any GPU that has MIG on

// What is at every (profile, start) of one GPU of the node.
struct There {
  int gpcs = 0;  // 0: nothing usable
  bool busy = false;
  int service = -1;  // -1: unknown or none
};
constexpr int kPlaces = hw::kMaxMigProfiles * hw::kMaxSlices;

int place_of(const hw::GpuModel& model, const std::string& profile, int start) {
  const int number = model.profile_index(profile);
  if (number < 0 || start < 0 || start >= hw::kMaxSlices) return -1;
  return number * hw::kMaxSlices + start;
}

struct WantedSlot {
  int place = 0;
  int service = -1;
};

// Matches the wanted GPUs of one model.
class ModelMatch {
 public:
  ModelMatch(const hw::GpuModel& model, const Assignment& assignment) : model_(model) {
    for (const AssignedSegment& one : assignment.segments) running_[one.device] = one.service;
  }

  void add_row(const WantedGpu& gpu, int number) {
    std::vector<WantedSlot>& slots = rows_.emplace_back();
    row_numbers_.push_back(number);
    for (const WantedInstance& one : gpu.instances) {
      slots.push_back({place_of(model_, one.profile, one.start), service(one.segment.service)});
    }
  }

  void add_column(const device::GpuState& gpu, int position) {
    std::vector<There>& there = columns_.emplace_back(kPlaces);
    column_numbers_.push_back(position);
    mig_off_.push_back(!gpu.mig_enabled);
    empty_.push_back(gpu.instances.empty());
    for (const device::Instance& instance : gpu.instances) {
      const int place = place_of(model_, instance.profile, instance.start);
      if (place < 0 || !(instance.whole() || instance.compute.empty())) continue;
      There& one = there[at(place)];
      one = {instance.gpcs, instance.busy(), -1};
      const auto found = running_.find(instance.uuid());
      if (found != running_.end()) one.service = service(found->second);
    }
  }

  std::size_t rows() const { return rows_.size(); }
  std::size_t columns() const { return columns_.size(); }

  // (wanted GPU, position of its GPU) pairs.
  std::vector<std::pair<int, int>> match() const {
    Weights weights{static_cast<int>(rows_.size()), static_cast<int>(columns_.size()), {}};
    weights.value.reserve(rows_.size() * columns_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (std::size_t c = 0; c < columns_.size(); ++c) weights.value.push_back(weight(r, c));
    }
    std::vector<std::pair<int, int>> pairs;
    const std::vector<int> column_of = heaviest_matching(weights);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      pairs.emplace_back(row_numbers_[r], column_numbers_[at(column_of[r])]);
    }
    return pairs;
  }

 private:
  int service(const std::string& name) {
    if (name.empty()) return -1;
    return services_.try_emplace(name, static_cast<int>(services_.size())).first->second;
  }

  std::int64_t weight(std::size_t row, std::size_t column) const {
    std::int64_t sum = row_numbers_[row] == column_numbers_[column] ? kIndexKept : 0;
    if (rows_[row].empty()) return sum;
    if (mig_off_[column]) sum -= kMigOff;
    if (empty_[column]) sum += kEmpty;
    for (const WantedSlot& slot : rows_[row]) {
      if (slot.place < 0) continue;
      const There& there = columns_[column][at(slot.place)];
      if (there.gpcs == 0) continue;
      sum += there.gpcs * kInstanceKept;
      if (there.busy) sum += there.gpcs * kBusyKept;
      if (there.service == slot.service || there.service < 0) sum += there.gpcs * kSegmentKept;
    }
    return sum;
  }

  const hw::GpuModel& model_;
  std::map<std::string, std::string> running_;  // service by MIG device
  std::map<std::string, int> services_;
  std::vector<std::vector<WantedSlot>> rows_;
  std::vector<std::vector<There>> columns_;
  std::vector<int> row_numbers_, column_numbers_;
  std::vector<char> mig_off_, empty_;
};

std::string models_of(const device::NodeState& state) {
  std::set<std::string> names;
  for (const device::GpuState& gpu : state.gpus) {
    names.insert(gpu.model.empty() ? fmt::format("'{}' (not in the catalogue)", gpu.name)
                                   : gpu.model);
  }
  return names.empty() ? "no GPU" : fmt::format("{}", fmt::join(names, ", "));
}

// "; gpu 2 is lost" for each GPU of the model that fell off the bus.
std::string lost_of(const device::NodeState& state, const std::string& model) {
  std::string text;
  for (const device::GpuState& gpu : state.gpus) {
    if (gpu.lost && gpu.model == model) text += fmt::format("; gpu {} is lost", gpu.index);
  }
  return text;
}

// Positions of the wanted GPUs that name a GPU; -1 for those that do not.
Result<std::vector<int>> named(const device::NodeState& state, const Wanted& wanted,
                               const ChangeOptions& options) {
  std::map<std::string, int> position;
  for (std::size_t g = 0; g < state.gpus.size(); ++g) {
    position[state.gpus[g].uuid] = static_cast<int>(g);
  }
  std::vector<int> gpu_of(wanted.gpus.size(), -1);
  std::set<int> taken;
  for (std::size_t w = 0; w < wanted.gpus.size(); ++w) {
    const WantedGpu& gpu = wanted.gpus[w];
    const bool decided = gpu.uuid.empty() && w < options.gpu_uuids.size();
    const std::string& uuid = decided ? options.gpu_uuids[w] : gpu.uuid;
    if (uuid.empty()) continue;
    const auto found = position.find(uuid);
    const bool there = found != position.end() && !state.gpus[at(found->second)].lost &&
                       taken.insert(found->second).second;
    if (there) {
      gpu_of[w] = found->second;
    } else if (!decided) {
      return bad_input(
          fmt::format("gpu {}", w),
          found == position.end()
              ? fmt::format("this node has no GPU {}; it has {}", uuid, models_of(state))
              : fmt::format("GPU {} (gpu {}) is lost, or wanted twice", uuid,
                            state.gpus[at(found->second)].index));
    }
  }
  return gpu_of;
}

Result<void> usable(const device::GpuState& gpu, const WantedGpu& wanted) {
  const std::string name = fmt::format("gpu {}", gpu.index);
  if (wanted.instances.empty() || gpu.mig_enabled) return {};
  if (!gpu.mig_capable) {
    return failed({ErrorCode::not_supported, gpu.name + " cannot be cut into instances", name});
  }
  if (!gpu.mig_pending) return {};
  return failed({ErrorCode::reset_required,
                 "MIG mode is on but not in force: reset the GPU (nvidia-smi --gpu-reset -i " +
                     std::to_string(gpu.index) + ") or reboot, then apply again",
                 name});
}

}  // namespace

Result<std::vector<int>> match_gpus(const device::NodeState& state, const Assignment& assignment,
                                    const Wanted& wanted, const hw::Catalogue& catalogue,
                                    const ChangeOptions& options) {
  Result<std::vector<int>> gpu_of = named(state, wanted, options);
  if (!gpu_of) return gpu_of;
  std::set<int> taken(gpu_of->begin(), gpu_of->end());
  std::map<std::string, std::vector<int>> free;  // wanted GPUs without a GPU yet, by model
  for (std::size_t w = 0; w < wanted.gpus.size(); ++w) {
    if ((*gpu_of)[w] < 0) free[wanted.gpus[w].model].push_back(static_cast<int>(w));
  }
  for (const auto& [name, rows] : free) {
    const Result<const hw::GpuModel*> model = catalogue.get(name);
    if (!model) return failed(model.error());
    ModelMatch match(**model, assignment);
    for (const int row : rows) match.add_row(wanted.gpus[at(row)], row);
    for (std::size_t g = 0; g < state.gpus.size(); ++g) {
      const device::GpuState& gpu = state.gpus[g];
      if (gpu.model != name || gpu.lost || taken.contains(static_cast<int>(g))) continue;
      match.add_column(gpu, static_cast<int>(g));
    }
    const std::string lost = lost_of(state, name);
    if (match.columns() == 0 && lost.empty()) {
      return bad_input("node",
                       fmt::format("the plan is for {}, this node has {}", name, models_of(state)));
    }
    if (match.rows() > match.columns()) {
      return failed({ErrorCode::infeasible,
                     fmt::format("the plan needs {} GPUs of model {}, {} can be used{}",
                                 match.rows(), name, match.columns(), lost),
                     "node"});
    }
    for (const auto& [row, position] : match.match()) (*gpu_of)[at(row)] = position;
  }
  for (std::size_t w = 0; w < wanted.gpus.size(); ++w) {
    const device::GpuState& gpu = state.gpus[at((*gpu_of)[w])];
    if (gpu.model != wanted.gpus[w].model) {
      return bad_input(
          fmt::format("gpu {}", w),
          fmt::format("{} is wanted, {} is a {}", wanted.gpus[w].model, gpu.uuid, gpu.model));
    }
    if (auto fine = usable(gpu, wanted.gpus[w]); !fine) return failed(fine.error());
  }
  return gpu_of;
}

}  // namespace partita::actuate
