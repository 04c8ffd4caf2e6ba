#include "act/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "act/capacity.h"
#include "act/gpu_match.h"
#include "act/order.h"
#include "act/predict.h"
#include "base/append.h"
#include "base/check.h"
#include "base/index.h"

namespace partita::actuate {
namespace {

// The segment that a change compares by: what it is planned to carry does not count, nor an engine
// that files of older versions do not name.
bool same_segment(const Segment& a, const Segment& b) {
  const bool known = !a.engine.empty() && !b.engine.empty();
  return (!known || a.engine == b.engine) && a.service == b.service && a.batch == b.batch &&
         a.processes == b.processes && a.held == b.held && a.prefill_units == b.prefill_units &&
         a.decode_units == b.decode_units;
}

// What a Unit stands for: an entry of one of the change's lists.
struct Item {
  enum class List { create, complete, destroy, reassign };
  List list = List::create;
  std::size_t at = 0;
};

// Groups of whole GPUs: those that run, as far as they are still whole, and those that are wanted.
class Groups {
 public:
  Groups(const device::NodeState& state, const Wanted& wanted, const Assignment& assignment,
         const std::vector<int>& gpu_of)
      : state_(state), wanted_(wanted) {
    for (const AssignedSegment& one : assignment.segments)
      for (const std::string& uuid : whole_gpus(one.device)) on_[uuid] = &one;
    std::map<int, std::vector<std::string>> members;
    for (std::size_t w = 0; w < gpu_of.size(); ++w)
      if (const int group = wanted.gpus[w].group; wanted.gpus[w].is_whole())
        members[group].push_back(state.gpus[at(gpu_of[w])].uuid);
    for (const auto& [group, uuids] : members) name(group, uuids, assignment);
  }

  // The UUIDs of a wanted GPU's group; of one that runs as its segment has them.
  const std::string& devices_of(int wanted) const {
    return devices_.at(wanted_.gpus[at(wanted)].group);
  }
  // The segment that runs on this GPU and others.
  const AssignedSegment* running(const device::GpuState& gpu) const {
    const auto found = on_.find(gpu.uuid);
    return found == on_.end() || gpu.mig_enabled ? nullptr : found->second;
  }
  bool stays(const AssignedSegment& runs, int wanted) const {
    return devices_of(wanted) == runs.device && is_there(state_, runs.device);
  }
  // Whether this is asked for the first time.
  bool first(const std::string& about) { return asked_.insert(about).second; }

 private:
  void name(int group, const std::vector<std::string>& uuids, const Assignment& assignment) {
    devices_[group] = joined(uuids, ",");
    const std::set<std::string> all(uuids.begin(), uuids.end());
    for (const AssignedSegment& one : assignment.segments) {
      const std::vector<std::string> there = whole_gpus(one.device);
      if (std::set<std::string>(there.begin(), there.end()) == all) devices_[group] = one.device;
    }
  }

  const device::NodeState& state_;
  const Wanted& wanted_;
  std::map<std::string, const AssignedSegment*> on_;  // by GPU
  std::map<int, std::string> devices_;                // by wanted group
  std::set<std::string> asked_;
};

bool has_moved(const Change& change, const Creation& to) {
  return std::ranges::any_of(change.move,
                             [&](const Move& move) { return move.to.place == to.place; });
}

// A destroyed and a created instance of one service belong together; of equal profile first.
void pair_moves(Change& change) {
  std::set<std::size_t> taken;
  for (const bool equal_profile : {true, false}) {
    for (const Creation& to : change.create) {
      if (to.segment.service.empty() || has_moved(change, to)) continue;
      for (std::size_t d = 0; d < change.destroy.size(); ++d) {
        const Present& from = change.destroy[d];
        if (taken.contains(d) || from.segment.service != to.segment.service) continue;
        if (equal_profile && from.place.profile != to.place.profile) continue;
        taken.insert(d);
        change.move.push_back({from, to});
        break;
      }
    }
  }
}

// A GPU whose MIG mode changes may have no client at all, one of a group none but its own.
void block_whole(Change& change, const Place& place, const device::GpuState& gpu) {
  for (const device::Holder& holder : gpu.holders) {
    Present whole;
    whole.place = place;
    whole.gi_id = kWholeGpu;
    whole.uuid = place.gpu_uuid;
    change.blockers.push_back({whole, holder});
  }
}

void find_blockers(Change& change, const device::NodeState& state, const Groups& groups) {
  for (const Present& one : change.destroy) {
    if (!one.segment.service.empty()) continue;
    for (const device::Holder& holder : one.holders) change.blockers.push_back({one, holder});
  }
  const auto look = [&](const Place& place, bool matters) {
    const device::GpuState& gpu = *state.find(place.gpu_uuid);
    if (matters && groups.running(gpu) == nullptr) block_whole(change, place, gpu);
  };
  for (const Step& step : change.steps)
    look(step.place, step.kind == Step::Kind::enable_mig || step.kind == Step::Kind::disable_mig);
  for (const Creation& one : change.create)
    look(one.place, !one.devices.empty() && !state.find(one.place.gpu_uuid)->mig_enabled);
}

const Present& leaving(const Change& change, const Item& item) {
  return item.list == Item::List::destroy ? change.destroy[item.at] : change.reassign[item.at].from;
}
const Segment& coming(const Change& change, const Item& item) {
  return item.list == Item::List::reassign ? change.reassign[item.at].to
                                           : change.create[item.at].segment;
}

// Compares what is there with what is wanted, GPU by GPU, then puts what is to be done in order.
class Planner {
 public:
  Planner(const device::NodeState& state, const Wanted& wanted, const ChangeOptions& options,
          Groups groups)
      : state_(state), wanted_(wanted), options_(options), groups_(std::move(groups)) {
    owned_.insert(options.owned.begin(), options.owned.end());
  }

  Change plan(const Assignment& assignment, const hw::Catalogue& catalogue,
              const std::vector<int>& gpu_of) {
    for (const AssignedSegment& one : assignment.segments) {
      segments_[one.device] = one;
      if (is_there(state_, one.device) && !whole_gpus(one.device).empty()) ran_.insert(one.service);
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
    pair_moves(change_);
    find_blockers(change_, state_, groups_);
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
    const bool grouped = wanted >= 0 && wanted_.gpus[at(wanted)].is_whole();
    std::vector<const WantedInstance*> missing;
    if (wanted >= 0) {
      for (const WantedInstance& one : wanted_.gpus[at(wanted)].instances) missing.push_back(&one);
    }
    const bool cut = !grouped && !missing.empty();
    layout_.add_gpu(&model, gpu.mig_enabled || cut);
    if (const AssignedSegment* runs = groups_.running(gpu)) {
      layout_.put(whole_slot(runs->profile));
      if (grouped && groups_.stays(*runs, wanted))
        return keep_whole(*runs, missing.front()->segment);
      destroy_whole(*runs);
      if (cut) cut_later_.insert(gpu.index);
    } else if (!gpu.mig_enabled && cut) {
      add_mode(gpu, true);
    }
    std::vector<const device::Instance*> others;
    for (const device::Instance& instance : gpu.instances) {
      layout_.put(slot_of(instance));
      if (grouped) {
        others.push_back(&instance);
        continue;
      }
      const auto same =
          std::find_if(missing.begin(), missing.end(), [&](const WantedInstance* one) {
            return model.profile_index(one->profile) == model.profile_index(instance.profile) &&
                   one->start == instance.start &&
                   !(instance.lent() && !one->segment.service.empty());
          });
      if (same == missing.end() || !(instance.whole() || instance.compute.empty())) {
        others.push_back(&instance);
        continue;
      }
      keep(instance, (*same)->segment);
      missing.erase(same);
    }
    for (const device::Instance* instance : others) destroy(*instance, missing);
    for (const WantedInstance* one : missing)
      create(*one, grouped ? groups_.devices_of(wanted) : "");
  }

  // ---- groups of whole GPUs ----

  Slot whole_slot(const std::string& profile) const {
    return {{model().profile_index(profile), 0}, at_, model().memory_slices};
  }

  Present present_whole(const AssignedSegment& runs) {
    gpcs_[runs.profile] = model().compute_slices;
    return {{{runs.profile, 0}, gpu().index, gpu().uuid},
            kWholeGpu,
            runs.device,
            segments_.at(runs.device),
            true,
            gpu().holders};
  }
  void keep_whole(const AssignedSegment& runs, const Segment& wanted) {
    const Present one = present_whole(runs);
    change_.keep.push_back(one);
    const bool same = same_segment(one.segment, wanted);
    if (same) change_.kept_gpcs += model().compute_slices;
    // Unless a GPU of it is gone: then the others lose it, too, and get it back.
    if (!groups_.first(runs.device)) return;
    count(one.segment, wanted);
    capacities_.before(one.segment, model().compute_slices);
    capacities_.after(wanted, model().compute_slices);
    if (same) return;
    change_.reassign.push_back({one, wanted});
    add_unit(Unit::Kind::reassign, {Item::List::reassign, change_.reassign.size() - 1},
             whole_slot(runs.profile));
  }

  void destroy_whole(const AssignedSegment& runs) {
    const Present one = present_whole(runs);
    if (groups_.first(runs.device)) {
      count(one.segment, {});
      capacities_.before(one.segment, model().compute_slices);
    }
    change_.destroy.push_back(one);
    add_unit(Unit::Kind::destroy, {Item::List::destroy, change_.destroy.size() - 1},
             whole_slot(runs.profile), "goes " + runs.device);
  }

  void write_whole(const Creation& one) {
    const device::GpuState& host = *state_.find(one.place.gpu_uuid);
    if (host.mig_enabled) add_mode(host, false);
    const auto yet = [&](const Creation& other) { return other.devices == one.devices; };
    if (++made_[one.devices] < std::ranges::count_if(change_.create, yet)) return;
    const Creation& first = *std::ranges::find_if(change_.create, [&](const Creation& other) {
      return yet(other) && one.devices.starts_with(other.place.gpu_uuid);
    });
    write_start(first, false);
  }

  void write_end_of_whole(const Present& one) {
    if (groups_.first("stop " + one.uuid))
      add_step(Step::Kind::stop, one.place, one.segment, false);
    add_step(Step::Kind::drain, one.place, one.segment, false);
    if (cut_later_.contains(one.place.gpu)) add_mode(*state_.find(one.place.gpu_uuid), true);
  }

  void add_mode(const device::GpuState& gpu, bool enabled) {
    add_step(enabled ? Step::Kind::enable_mig : Step::Kind::disable_mig, {{}, gpu.index, gpu.uuid},
             {}, false);
  }

  const device::GpuState& gpu() const { return *gpus_.back(); }
  const hw::GpuModel& model() const { return layout_.model(at_); }

  Slot slot_of(const device::Instance& instance) const {
    return {{model().profile_index(instance.profile), instance.start}, at_, instance.size};
  }

  Present present(const device::Instance& instance) {
    Present one;
    one.place = {instance, gpu().index, gpu().uuid};
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
    if (same_segment(one.segment, wanted) || one.segment.service.empty())
      change_.kept_gpcs += instance.gpcs;
    if (same_segment(one.segment, wanted)) return;
    change_.reassign.push_back({one, wanted});
    add_unit(Unit::Kind::reassign, {Item::List::reassign, change_.reassign.size() - 1},
             slot_of(instance));
  }

  void create(const WantedInstance& one, const std::string& devices) {
    const int profile = model().profile_index(one.profile);
    const hw::MigProfile& shape = model().profiles[at(profile)];
    gpcs_[one.profile] = shape.gpcs;
    change_.create.push_back({{one, gpu().index, gpu().uuid}, one.segment, devices});
    if (devices.empty() || groups_.first("comes " + devices)) {
      count({}, one.segment);
      capacities_.after(one.segment, shape.gpcs);
    }
    add_unit(Unit::Kind::create, {Item::List::create, change_.create.size() - 1},
             {{profile, one.start}, at_, shape.size}, devices);
  }

  void destroy(const device::Instance& instance,
               const std::vector<const WantedInstance*>& missing) {
    const Present one = present(instance);
    count(one.segment, {});
    capacities_.before(one.segment, instance.gpcs);
    const bool stays = instance.lent() || (!one.ours && options_.keep_foreign);
    if (stays && !in_the_way(instance, missing)) {
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
    if (there.profile >= 0) placed.push_back(there);
    for (const WantedInstance* one : missing) {
      const int profile = model().profile_index(one->profile);
      const Slot slot{{profile, one->start}, at_, model().profiles[at(profile)].size};
      placed.push_back(slot);
      if ((slices_of(slot) & slices_of(there)) != 0) return true;
    }
    return !missing.empty() && !hw::conflicts(model(), placed).empty();
  }

  void add_unit(Unit::Kind kind, const Item& item, const Slot& slot,
                const std::string& group = {}) {
    Unit& unit = units_.emplace_back(Unit{kind, static_cast<int>(items_.size()), slot});
    if (!group.empty())
      unit.group = numbers_.try_emplace(group, static_cast<int>(numbers_.size())).first->second;
    items_.push_back(item);
  }

  // Puts the units in order and writes them out as steps.
  void arrange() {
    for (Unit& unit : units_) {
      const Item& item = items_[at(unit.id)];
      if (item.list == Item::List::destroy || item.list == Item::List::reassign) {
        const Present& one = leaving(change_, item);
        unit.loses = capacities_.service(one.segment.service);
        unit.lost = capacities_.of(one.segment, gpcs_.at(one.place.profile));
      }
      if (item.list != Item::List::destroy) {
        const std::string& profile = item.list == Item::List::reassign
                                         ? change_.reassign[item.at].from.place.profile
                                         : change_.create[item.at].place.profile;
        unit.gains = capacities_.service(coming(change_, item).service);
        unit.gained = capacities_.of(coming(change_, item), gpcs_.at(profile));
      }
    }
    const std::vector<Unit> ordered =
        in_order({layout_, units_, capacities_.now(), capacities_.floors(options_.min_available)});
    for (const Unit& unit : ordered) {
      const Item& item = items_[at(unit.id)];
      unit.temporary ? write_stand_in(unit, leaving(change_, item)) : write(item);
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
        const bool whole = one.from.gi_id == kWholeGpu;
        if (!one.from.segment.service.empty()) write_stop(one.from, false);
        return write_start({one.from.place, one.to, whole ? one.from.uuid : ""}, false);
      }
    }
  }

  void write_creation(const Creation& one, bool temporary) {
    if (!one.devices.empty()) return write_whole(one);
    add_step(Step::Kind::create_instance, one.place, {}, temporary);
    add_step(Step::Kind::create_compute, one.place, {}, temporary);
    write_start(one, temporary);
  }

  void write_start(const Creation& one, bool temporary) {
    if (one.segment.service.empty()) return;
    add_step(Step::Kind::start, one.place, one.segment, temporary);
    change_.steps.back().devices = one.devices;
  }

  void write_stop(const Present& one, bool temporary) {
    if (!one.segment.service.empty()) add_step(Step::Kind::stop, one.place, one.segment, temporary);
    add_step(Step::Kind::drain, one.place, one.segment, temporary);
  }

  void write_destruction(const Present& one, bool temporary) {
    if (one.gi_id == kWholeGpu) return write_end_of_whole(one);
    write_stop(one, temporary);
    if (!one.uuid.empty()) add_step(Step::Kind::destroy_compute, one.place, {}, temporary);
    add_step(Step::Kind::destroy_instance, one.place, {}, temporary);
  }

  void write_stand_in(const Unit& unit, const Present& original) {
    const device::GpuState& host = *gpus_[at(unit.slot.gpu)];
    const Creation one{{{original.place.profile, unit.slot.start}, host.index, host.uuid},
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
        {kind, place, segment, temporary, driver_time(on, place.profile, kind), {}});
  }

  const device::NodeState& state_;
  const Wanted& wanted_;
  const ChangeOptions& options_;
  std::set<std::string> owned_;
  std::set<std::string> ran_;                // services that have a segment somewhere
  std::map<std::string, Segment> segments_;  // by MIG device
  std::map<std::string, int> gpcs_;          // by profile
  Groups groups_;
  std::map<std::string, int> numbers_, made_;  // of groups; GPUs made for one
  std::set<int> cut_later_;                    // GPUs that are cut once a group has left them
  LayoutState layout_;
  std::vector<const device::GpuState*> gpus_;  // of layout_
  int at_ = 0;                                 // the GPU that is being compared
  Capacities capacities_;
  std::vector<Unit> units_;
  std::vector<Item> items_;
  Change change_;
};

}  // namespace

bool needs_reset(const device::GpuState& gpu, const hw::Catalogue& catalogue, bool enabled) {
  if (gpu.mig_enabled == enabled || !gpu.mig_capable) return false;
  const hw::GpuModel* model = catalogue.find(gpu.model);
  return gpu.mig_pending == enabled || (model != nullptr && model->architecture == "ampere");
}

std::string to_string(const Place& place) {
  if (place.profile.empty()) return fmt::format("gpu {}", place.gpu);
  return fmt::format("gpu {} {} at {}", place.gpu, place.profile, place.start);
}

Result<Change> plan_change(const device::NodeState& state, const Assignment& assignment,
                           const Wanted& wanted, const hw::Catalogue& catalogue,
                           const ChangeOptions& options) {
  if (state.gpus.size() > kMaxChangeGpus || wanted.gpus.size() > kMaxChangeGpus)
    return failed({ErrorCode::limit, fmt::format("more than {} GPUs", kMaxChangeGpus), "node"});
  TRY(check_wanted(wanted, catalogue));
  const auto gpu_of = TRY(match_gpus(state, assignment, wanted, catalogue, options));
  return Planner(state, wanted, options, Groups(state, wanted, assignment, gpu_of))
      .plan(assignment, catalogue, gpu_of);
}

}  // namespace partita::actuate
