#include "act/gpu_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "act/lent.h"
#include "base/append.h"
#include "base/index.h"
#include "hw/layout.h"
#include "plan/changes.h"

namespace partita::actuate {
namespace {

using Segments = std::map<std::string, const AssignedSegment*>;  // by MIG device

// The catalogue's name of a profile; one that it does not know stays as it is.
std::string profile_name(const hw::GpuModel& model, const std::string& profile) {
  const int number = model.profile_index(profile);
  return number < 0 ? profile : model.profiles[at(number)].name;
}

plan::GpuTenancies tenancies_of(const WantedGpu& gpu, int number, const hw::GpuModel& model) {
  plan::GpuTenancies result{gpu.index < 0 ? number : gpu.index, true, {}};
  for (const WantedInstance& one : gpu.instances) {
    const Segment& segment = one.segment;
    result.tenants.push_back({profile_name(model, one.profile), one.start, segment.service,
                              segment.batch, segment.processes});
  }
  return result;
}

plan::GpuTenancies tenancies_of(const device::GpuState& gpu, const Segments& segments,
                                const hw::GpuModel& model) {
  plan::GpuTenancies result{gpu.index, gpu.mig_enabled, {}};
  bool lent = false, runs = false;
  for (const device::Instance& one : gpu.instances) {
    plan::Tenancy& tenancy = result.tenants.emplace_back();
    tenancy.profile = profile_name(model, one.profile);
    tenancy.start = one.start;
    tenancy.held = one.busy();
    const bool usable = one.whole() || one.compute.empty();
    if (!usable) tenancy.profile += " in parts";  // nothing that is wanted
    if (one.lent()) tenancy.profile += " lent";
    lent = lent || one.lent();
    const auto found = segments.find(one.uuid());
    if (found == segments.end()) continue;
    tenancy.service = found->second->service;
    tenancy.batch = found->second->batch;
    tenancy.processes = found->second->processes;
    runs = true;
  }
  for (const auto& [device, segment] : segments) {
    const std::vector<std::string> whole = whole_gpus(device);
    if (std::ranges::count(whole, gpu.uuid) > 0)  // taken only where there is no other
      result.tenants.push_back({"whole GPU", 0, segment->service, 0, 0, true});
  }
  // One that others hold a part of, and nothing of ours runs on, comes last.
  if (lent && !runs) result.ready = false;
  return result;
}

// Whether what is wanted fits beside what is lent there.
bool fits_beside_lent(const device::GpuState& gpu, const WantedGpu& wanted,
                      const hw::GpuModel& model) {
  std::vector<hw::PlacedProfile> placed;
  for (const WantedInstance& one : wanted.instances)
    placed.push_back({model.profile_index(one.profile), one.start});
  return lent_against(gpu, model, std::move(placed)).empty();
}

std::string models_of(const device::NodeState& state) {
  std::set<std::string> names;
  for (const device::GpuState& gpu : state.gpus) {
    names.insert(gpu.model.empty() ? fmt::format("'{}' (not in the catalogue)", gpu.name)
                                   : gpu.model);
  }
  return names.empty() ? "no GPU" : joined(names, ", ");
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
  for (std::size_t g = 0; g < state.gpus.size(); ++g)
    position[state.gpus[g].uuid] = static_cast<int>(g);
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

Result<void> usable(const device::GpuState& gpu, const WantedGpu& wanted,
                    const hw::Catalogue& catalogue, const ChangeOptions& options) {
  const std::string name = fmt::format("gpu {}", gpu.index);
  const bool mig = !wanted.is_whole();
  if (wanted.instances.empty() || gpu.mig_enabled == mig) return {};
  if (!gpu.mig_capable)
    return failed({ErrorCode::not_supported, gpu.name + " cannot be cut into instances", name});
  const char* mode = mig ? "on" : "off";
  if (gpu.mig_pending == mig && !(options.allow_reset && options.can_reset))
    return failed({ErrorCode::reset_required,
                   fmt::format("MIG mode is {} but not in force: reset the GPU (nvidia-smi "
                               "--gpu-reset -i {}) or reboot, then apply again",
                               mode, gpu.index),
                   name});
  if (options.allow_reset || !needs_reset(gpu, catalogue, mig)) return {};
  return failed(
      {ErrorCode::reset_required,
       fmt::format("MIG is turned {} only by a reset of the GPU, which ends whatever runs "
                   "on it, and that was not allowed (--no-reset, policy.allow_reset of the agent): "
                   "run nvidia-smi -i {} -mig {} and nvidia-smi --gpu-reset -i {}",
                   mode, gpu.index, mig ? 1 : 0, gpu.index),
       name});
}

// Gives the groups of whole GPUs theirs: those that run on as many GPUs, with the same segment
// before those with another of the service, then those on which the least runs.
class GroupMatch {
 public:
  GroupMatch(const device::NodeState& state, const Assignment& assignment, const Wanted& wanted,
             std::vector<int>& gpu_of)
      : state_(state), assignment_(assignment), wanted_(wanted), gpu_of_(gpu_of) {
    for (std::size_t w = 0; w < wanted.gpus.size(); ++w)
      if (wanted.gpus[w].is_whole()) members_[wanted.gpus[w].group].push_back(w);
  }

  void run() {
    for (const bool same : {true, false})
      for (const auto& [group, rows] : members_)
        if (!placed(rows)) stay(rows, same);
    for (const auto& [group, rows] : members_)
      if (!placed(rows)) choose(rows);
  }

 private:
  bool placed(const std::vector<std::size_t>& rows) const {
    return std::ranges::any_of(rows, [&](std::size_t row) { return gpu_of_[row] >= 0; });
  }
  bool free(std::size_t gpu, const std::string& model) const {
    return state_.gpus[gpu].model == model && !state_.gpus[gpu].lost &&
           std::ranges::count(gpu_of_, static_cast<int>(gpu)) == 0;
  }

  void stay(const std::vector<std::size_t>& rows, bool same) {
    const WantedGpu& gpu = wanted_.gpus[rows.front()];
    const Segment& segment = gpu.instances.front().segment;
    for (const AssignedSegment& one : assignment_.segments) {
      const std::vector<std::string> uuids = whole_gpus(one.device);
      const bool equal = one.batch == segment.batch && one.processes == segment.processes;
      if (uuids.size() != rows.size() || one.service != segment.service || (same && !equal))
        continue;
      if (!is_there(state_, one.device)) continue;
      std::vector<int> there;
      for (const std::string& uuid : uuids) {
        const auto at = static_cast<std::size_t>(state_.find(uuid) - state_.gpus.data());
        if (free(at, gpu.model)) there.push_back(static_cast<int>(at));
      }
      if (there.size() != rows.size()) continue;
      for (std::size_t i = 0; i < rows.size(); ++i) gpu_of_[rows[i]] = there[i];
      return;
    }
  }

  // What is given up where this GPU is taken: compute slices that run, whether its mode changes.
  std::tuple<bool, int, bool, int> price(std::size_t g) const {
    const device::GpuState& gpu = state_.gpus[g];
    int runs = 0;
    bool lent = false;
    for (const AssignedSegment& one : assignment_.segments) {
      const std::vector<std::string> whole = whole_gpus(one.device);
      // What is left of a group that lost a GPU runs nothing.
      const bool its = std::ranges::count(whole, gpu.uuid) > 0;
      if (its && is_there(state_, one.device)) runs += kWhole;
    }
    for (const device::Instance& one : gpu.instances) {
      lent = lent || one.lent();
      const bool used = one.busy() || std::ranges::count(assignment_.segments, one.uuid(),
                                                         &AssignedSegment::device) > 0;
      if (used) runs += one.gpcs;
    }
    return {lent, runs, gpu.mig_enabled, gpu.index};
  }

  void choose(const std::vector<std::size_t>& rows) {
    std::vector<std::size_t> open;
    for (std::size_t g = 0; g < state_.gpus.size(); ++g)
      if (free(g, wanted_.gpus[rows.front()].model)) open.push_back(g);
    if (open.size() < rows.size()) return;
    std::ranges::sort(open, {}, [&](std::size_t g) { return price(g); });
    std::sort(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) gpu_of_[rows[i]] = static_cast<int>(open[i]);
  }

  static constexpr int kWhole = 8;  // more than any instance
  const device::NodeState& state_;
  const Assignment& assignment_;
  const Wanted& wanted_;
  std::vector<int>& gpu_of_;
  std::map<int, std::vector<std::size_t>> members_;
};

}  // namespace

Result<std::vector<int>> match_gpus(const device::NodeState& state, const Assignment& assignment,
                                    const Wanted& wanted, const hw::Catalogue& catalogue,
                                    const ChangeOptions& options) {
  std::vector<int> gpu_of = TRY(named(state, wanted, options));
  GroupMatch(state, assignment, wanted, gpu_of).run();
  std::set<int> taken(gpu_of.begin(), gpu_of.end());
  std::map<std::string, std::vector<int>> free;  // wanted GPUs without a GPU yet, by model
  for (std::size_t w = 0; w < wanted.gpus.size(); ++w) {
    if (gpu_of[w] < 0) free[wanted.gpus[w].model].push_back(static_cast<int>(w));
  }
  Segments segments;
  for (const AssignedSegment& one : assignment.segments) segments[one.device] = &one;
  for (const auto& [name, rows] : free) {
    const hw::GpuModel* model = TRY(catalogue.get(name));
    std::vector<plan::GpuTenancies> needs, offers;
    for (const int row : rows) needs.push_back(tenancies_of(wanted.gpus[at(row)], row, *model));
    std::vector<int> positions;
    for (std::size_t g = 0; g < state.gpus.size(); ++g) {
      const device::GpuState& gpu = state.gpus[g];
      if (gpu.model != name || gpu.lost || taken.contains(static_cast<int>(g))) continue;
      offers.push_back(tenancies_of(gpu, segments, *model));
      const bool fits = std::ranges::any_of(
          rows, [&](int row) { return fits_beside_lent(gpu, wanted.gpus[at(row)], *model); });
      if (!fits) offers.back().ready = false;
      positions.push_back(static_cast<int>(g));
    }
    const std::string lost = lost_of(state, name);
    if (offers.empty() && lost.empty()) {
      return bad_input("node",
                       fmt::format("the plan is for {}, this node has {}", name, models_of(state)));
    }
    if (needs.size() > offers.size()) {
      return failed({ErrorCode::infeasible,
                     fmt::format("the plan needs {} GPUs of model {}, {} can be used{}",
                                 needs.size(), name, offers.size(), lost),
                     "node"});
    }
    const std::vector<int> matched = plan::match_gpus(needs, offers);
    for (std::size_t i = 0; i < rows.size(); ++i) gpu_of[at(rows[i])] = positions[at(matched[i])];
  }
  for (std::size_t w = 0; w < wanted.gpus.size(); ++w) {
    const device::GpuState& gpu = state.gpus[at(gpu_of[w])];
    if (gpu.model != wanted.gpus[w].model) {
      return bad_input(
          fmt::format("gpu {}", w),
          fmt::format("{} is wanted, {} is a {}", wanted.gpus[w].model, gpu.uuid, gpu.model));
    }
    TRY(usable(gpu, wanted.gpus[w], catalogue, options));
  }
  return gpu_of;
}

}  // namespace partita::actuate
