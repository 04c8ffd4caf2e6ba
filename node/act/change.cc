#include "act/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "act/capacity.h"
#include "act/gpu_match.h"
#include "act/order.h"
#include "act/predict.h"
#include "base/check.h"
#include "base/index.h"

namespace partita::actuate {
namespace {

// The segment that a change compares by: what it is planned to carry does not count.
bool same_segment(const Segment& a, const Segment& b) {
  return a.service == b.service && a.batch == b.batch && a.processes == b.processes;
}

// What a Unit stands for: an entry of one of the change's lists.
struct Item {
  enum class List { create, complete, destroy, reassign };
  List list = List::create;
  std::size_t at = 0;
};

// Compares what is there with what is wanted, GPU by GPU, then puts what is to be done in order.
class Planner {
 public:
  Planner(const device::NodeState& state, const Wanted& wanted, const ChangeOptions& options)
      : state_(state), wanted_(wanted), options_(options) {
    owned_.insert(options.owned.begin(), options.owned.end());
  }

  Change plan(const Assignment& assignment, const hw::Catalogue& catalogue,
              const std::vector<int>& gpu_of) {
    for (const AssignedSegment& one : assignment.segments) {
      segments_[one.device] = {one.service, one.batch, one.processes, one.throughput_rps};
    }
    for (const device::GpuState& gpu : state_.gpus) {
      for (const device::Instance& one : gpu.instances) {
        const auto found = segments_.find(one.uuid());
        if (found != segments_.end()) ran_.insert(found->second.service);
      }
    }
    std::vector<int> wanted_at(state_.gpus.size(), -1);
    for (std::size_t w = 0; w < gpu_of.size(); ++w) {
      wanted_at[at(gpu_of[w])] = static_cast<int>(w);
      change_.gpu_of.push_back(state_.gpus[at(gpu_of[w])].index);
    }
    for (std::size_t g = 0; g < state_.gpus.size(); ++g) {
      const device::GpuState& gpu = state_.gpus[g];
      if (managed(gpu, wanted_at[g])) compare(gpu, *catalogue.find(gpu.model), wanted_at[g]);
    }
    arrange();
    pair_moves();
    find_blockers();
    predict(change_, capacities_, gpcs_, options_.min_available);
    return std::move(change_);
  }

 private:
  // GPUs that the change may touch: those that are wanted to be something, and, where any GPU of a
  // model would have done, all of that model.
  bool managed(const device::GpuState& gpu, int wanted) const {
    if (gpu.lost) return false;
    if (wanted >= 0) return true;
    return std::any_of(wanted_.gpus.begin(), wanted_.gpus.end(), [&](const WantedGpu& one) {
      return one.uuid.empty() && one.model == gpu.model;
    });
  }

  void compare(const device::GpuState& gpu, const hw::GpuModel& model, int wanted) {
    at_ = layout_.gpus();
    gpus_.push_back(&gpu);
    std::vector<const WantedInstance*> missing;
    if (wanted >= 0) {
      for (const WantedInstance& one : wanted_.gpus[at(wanted)].instances) missing.push_back(&one);
    }
    layout_.add_gpu(&model, gpu.mig_enabled || !missing.empty());
    if (!gpu.mig_enabled && !missing.empty()) {
      add_step(Step::Kind::enable_mig, {gpu.index, gpu.uuid, "", 0}, {}, false);
    }
    std::vector<const device::Instance*> others;
    for (const device::Instance& instance : gpu.instances) {
      layout_.put(slot_of(instance));
      const auto same =
          std::find_if(missing.begin(), missing.end(), [&](const WantedInstance* one) {
            return model.profile_index(one->profile) == model.profile_index(instance.profile) &&
                   one->start == instance.start;
          });
      if (same == missing.end() || !(instance.whole() || instance.compute.empty())) {
        others.push_back(&instance);
        continue;
      }
      keep(instance, (*same)->segment);
      missing.erase(same);
    }
    for (const device::Instance* instance : others) destroy(*instance, missing);
    for (const WantedInstance* one : missing) create(*one);
  }

  const device::GpuState& gpu() const { return *gpus_.back(); }
  const hw::GpuModel& model() const { return layout_.model(at_); }

  Slot slot_of(const device::Instance& instance) const {
    return {at_, model().profile_index(instance.profile), instance.start, instance.size};
  }

  Present present(const device::Instance& instance) {
    Present one;
    one.place = {gpu().index, gpu().uuid, instance.profile, instance.start};
    one.gi_id = instance.gi_id;
    one.uuid = instance.uuid();
    one.holders = instance.holders;
    for (const device::ComputeInstance& compute : instance.compute) {
      const auto found = segments_.find(compute.uuid);
      if (found != segments_.end()) one.segment = found->second;
    }
    const auto& intended = options_.intended;
    one.ours = owned_.contains(one.uuid) ||
               std::find(intended.begin(), intended.end(), one.place) != intended.end();
    gpcs_[instance.profile] = instance.gpcs;
    return one;
  }

  // Counts what becomes of a segment that is there and of the one that comes in its place; empty
  // services: none.
  void count(const Segment& from, const Segment& to) {
    plan::Changes& changes = change_.changes;
    if (from.service == to.service && !to.service.empty()) {
      ++(same_segment(from, to) ? changes.kept : changes.restarted);
      return;
    }
    if (!from.service.empty()) ++changes.removed;
    if (!to.service.empty()) ++(ran_.contains(to.service) ? changes.moved : changes.created);
  }

  void keep(const device::Instance& instance, const Segment& wanted) {
    const Present one = present(instance);
    count(one.segment, wanted);
    capacities_.after(wanted, instance.gpcs);
    if (instance.compute.empty()) {  // a creation that was cut short
      change_.create.push_back({one.place, wanted});
      add_unit(Unit::Kind::reassign, {Item::List::complete, change_.create.size() - 1},
               slot_of(instance));
      return;
    }
    change_.keep.push_back(one);
    capacities_.before(one.segment, instance.gpcs);
    if (same_segment(one.segment, wanted) || one.segment.service.empty()) {
      change_.kept_gpcs += instance.gpcs;
    }
    if (same_segment(one.segment, wanted)) return;
    change_.reassign.push_back({one, wanted});
    add_unit(Unit::Kind::reassign, {Item::List::reassign, change_.reassign.size() - 1},
             slot_of(instance));
  }

  void create(const WantedInstance& one) {
    const int profile = model().profile_index(one.profile);
    const hw::MigProfile& shape = model().profiles[at(profile)];
    gpcs_[one.profile] = shape.gpcs;
    change_.create.push_back({{gpu().index, gpu().uuid, one.profile, one.start}, one.segment});
    count({}, one.segment);
    capacities_.after(one.segment, shape.gpcs);
    add_unit(Unit::Kind::create, {Item::List::create, change_.create.size() - 1},
             {at_, profile, one.start, shape.size});
  }

  void destroy(const device::Instance& instance,
               const std::vector<const WantedInstance*>& missing) {
    const Present one = present(instance);
    count(one.segment, {});
    capacities_.before(one.segment, instance.gpcs);
    if (!one.ours && options_.keep_foreign && !in_the_way(instance, missing)) {
      if (one.segment.service.empty()) return;
      change_.reassign.push_back({one, {}});  // it stays, without what Partita put on it
      add_unit(Unit::Kind::reassign, {Item::List::reassign, change_.reassign.size() - 1},
               slot_of(instance));
      return;
    }
    change_.destroy.push_back(one);
    add_unit(Unit::Kind::destroy, {Item::List::destroy, change_.destroy.size() - 1},
             slot_of(instance));
  }

  // Whether something that is wanted cannot be created beside it.
  bool in_the_way(const device::Instance& instance,
                  const std::vector<const WantedInstance*>& missing) const {
    std::vector<hw::PlacedProfile> placed;
    const Slot there = slot_of(instance);
    if (there.profile >= 0) placed.push_back({there.profile, there.start});
    for (const WantedInstance* one : missing) {
      const int profile = model().profile_index(one->profile);
      placed.push_back({profile, one->start});
      const Slot slot{at_, profile, one->start, model().profiles[at(profile)].size};
      if ((slices_of(slot) & slices_of(there)) != 0) return true;
    }
    return !missing.empty() && !hw::conflicts(model(), placed).empty();
  }

  void add_unit(Unit::Kind kind, const Item& item, const Slot& slot) {
    units_.push_back({kind, static_cast<int>(items_.size()), slot});
    items_.push_back(item);
  }

  const Present& leaving(const Item& item) const {
    return item.list == Item::List::destroy ? change_.destroy[item.at]
                                            : change_.reassign[item.at].from;
  }
  const Segment& coming(const Item& item) const {
    return item.list == Item::List::reassign ? change_.reassign[item.at].to
                                             : change_.create[item.at].segment;
  }

  // Puts the units in order and writes them out as steps.
  void arrange() {
    for (Unit& unit : units_) {
      const Item& item = items_[at(unit.id)];
      if (item.list == Item::List::destroy || item.list == Item::List::reassign) {
        const Present& one = leaving(item);
        unit.loses = capacities_.service(one.segment.service);
        unit.lost = capacities_.of(one.segment, gpcs_.at(one.place.profile));
      }
      if (item.list != Item::List::destroy) {
        const std::string& profile = item.list == Item::List::reassign
                                         ? change_.reassign[item.at].from.place.profile
                                         : change_.create[item.at].place.profile;
        unit.gains = capacities_.service(coming(item).service);
        unit.gained = capacities_.of(coming(item), gpcs_.at(profile));
      }
    }
    const std::vector<Unit> ordered =
        in_order({layout_, units_, capacities_.now(), capacities_.floors(options_.min_available)});
    for (const Unit& unit : ordered) {
      const Item& item = items_[at(unit.id)];
      unit.temporary ? write_stand_in(unit, leaving(item)) : write(item);
    }
  }

  void write(const Item& item) {
    switch (item.list) {
      case Item::List::create:
        return write_creation(change_.create[item.at], false);
      case Item::List::complete:
        add_step(Step::Kind::create_compute, change_.create[item.at].place, {}, false);
        return write_start(change_.create[item.at], false);
      case Item::List::destroy:
        return write_destruction(change_.destroy[item.at], false);
      case Item::List::reassign: {
        const Reassignment& one = change_.reassign[item.at];
        if (!one.from.segment.service.empty()) write_stop(one.from, false);
        return write_start({one.from.place, one.to}, false);
      }
    }
  }

  void write_creation(const Creation& one, bool temporary) {
    add_step(Step::Kind::create_instance, one.place, {}, temporary);
    add_step(Step::Kind::create_compute, one.place, {}, temporary);
    write_start(one, temporary);
  }

  void write_start(const Creation& one, bool temporary) {
    if (one.segment.service.empty()) return;
    add_step(Step::Kind::start, one.place, one.segment, temporary);
  }

  void write_stop(const Present& one, bool temporary) {
    if (!one.segment.service.empty()) add_step(Step::Kind::stop, one.place, one.segment, temporary);
    add_step(Step::Kind::drain, one.place, one.segment, temporary);
  }

  void write_destruction(const Present& one, bool temporary) {
    write_stop(one, temporary);
    if (!one.uuid.empty()) add_step(Step::Kind::destroy_compute, one.place, {}, temporary);
    add_step(Step::Kind::destroy_instance, one.place, {}, temporary);
  }

  void write_stand_in(const Unit& unit, const Present& original) {
    const device::GpuState& host = *gpus_[at(unit.slot.gpu)];
    const Creation one{{host.index, host.uuid, original.place.profile, unit.slot.start},
                       original.segment};
    if (unit.kind == Unit::Kind::create) {
      change_.temporary.push_back(one);
      return write_creation(one, true);
    }
    Present end;
    end.place = one.place;
    end.segment = one.segment;
    end.uuid = "made before";
    write_destruction(end, true);
  }

  void add_step(Step::Kind kind, const Place& place, const Segment& segment, bool temporary) {
    const auto found = std::find_if(gpus_.begin(), gpus_.end(),
                                    [&](const auto* gpu) { return gpu->index == place.gpu; });
    CHECK(found != gpus_.end());
    const hw::GpuModel& on = layout_.model(static_cast<int>(found - gpus_.begin()));
    change_.steps.push_back(
        {kind, place, segment, temporary, driver_time(on, place.profile, kind)});
  }

  // A destroyed and a created instance of one service belong together; of equal profile first.
  void pair_moves() {
    std::set<std::size_t> taken;
    for (const bool equal_profile : {true, false}) {
      for (const Creation& to : change_.create) {
        if (to.segment.service.empty() || moved(to)) continue;
        for (std::size_t d = 0; d < change_.destroy.size(); ++d) {
          const Present& from = change_.destroy[d];
          if (taken.contains(d) || from.segment.service != to.segment.service) continue;
          if (equal_profile && from.place.profile != to.place.profile) continue;
          taken.insert(d);
          change_.move.push_back({from, to});
          break;
        }
      }
    }
  }

  bool moved(const Creation& to) const {
    return std::any_of(change_.move.begin(), change_.move.end(),
                       [&](const Move& move) { return move.to.place == to.place; });
  }

  void find_blockers() {
    for (const Present& one : change_.destroy) {
      if (!one.segment.service.empty()) continue;
      for (const device::Holder& holder : one.holders) change_.blockers.push_back({one, holder});
    }
    // A GPU whose MIG mode changes may have no client at all.
    for (const Step& step : change_.steps) {
      if (step.kind != Step::Kind::enable_mig) continue;
      for (const device::Holder& holder : state_.find(step.place.gpu_uuid)->holders) {
        Present whole;
        whole.place = step.place;
        whole.uuid = step.place.gpu_uuid;
        change_.blockers.push_back({whole, holder});
      }
    }
  }

  const device::NodeState& state_;
  const Wanted& wanted_;
  const ChangeOptions& options_;
  std::set<std::string> owned_;
  std::set<std::string> ran_;                // services that have a segment somewhere
  std::map<std::string, Segment> segments_;  // by MIG device
  std::map<std::string, int> gpcs_;          // by profile
  LayoutState layout_;
  std::vector<const device::GpuState*> gpus_;  // of layout_
  int at_ = 0;                                 // the GPU that is being compared
  Capacities capacities_;
  std::vector<Unit> units_;
  std::vector<Item> items_;
  Change change_;
};

}  // namespace

bool needs_reset(const device::GpuState& gpu, const hw::Catalogue& catalogue) {
  if (gpu.mig_enabled || !gpu.mig_capable) return false;
  const hw::GpuModel* model = catalogue.find(gpu.model);
  return gpu.mig_pending || (model != nullptr && model->architecture == "ampere");
}

std::string to_string(const Place& place) {
  if (place.profile.empty()) return fmt::format("gpu {}", place.gpu);
  return fmt::format("gpu {} {} at {}", place.gpu, place.profile, place.start);
}

const char* to_string(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::enable_mig:
      return "enable_mig";
    case Step::Kind::create_instance:
      return "create_instance";
    case Step::Kind::create_compute:
      return "create_compute";
    case Step::Kind::start:
      return "start";
    case Step::Kind::stop:
      return "stop";
    case Step::Kind::drain:
      return "drain";
    case Step::Kind::destroy_compute:
      return "destroy_compute";
    case Step::Kind::destroy_instance:
      return "destroy_instance";
  }
  return "?";
}

Result<Change> plan_change(const device::NodeState& state, const Assignment& assignment,
                           const Wanted& wanted, const hw::Catalogue& catalogue,
                           const ChangeOptions& options) {
  if (state.gpus.size() > kMaxChangeGpus || wanted.gpus.size() > kMaxChangeGpus) {
    return failed({ErrorCode::limit, fmt::format("more than {} GPUs", kMaxChangeGpus), "node"});
  }
  if (auto fine = check_wanted(wanted, catalogue); !fine) return failed(fine.error());
  const auto gpu_of = match_gpus(state, assignment, wanted, catalogue, options);
  if (!gpu_of) return failed(gpu_of.error());
  return Planner(state, wanted, options).plan(assignment, catalogue, *gpu_of);
}

}  // namespace partita::actuate
