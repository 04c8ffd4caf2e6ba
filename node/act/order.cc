#include "act/order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "act/capacity.h"
#include "base/check.h"
#include "base/index.h"

namespace partita::actuate {
namespace {

class Orderer {
 public:
  explicit Orderer(OrderProblem problem)
      : p_(std::move(problem)),
        of_gpu_(at(p_.layout.gpus())),
        awake_(of_gpu_.size()),
        waiting_(p_.capacity.size()) {
    for (const Unit& unit : p_.units) add(unit);
  }

  std::vector<Unit> run() {
    settle();
    while (pending_ > 0) {
      if (!stand_in()) force();
      settle();
    }
    return std::move(order_);
  }

 private:
  void add(const Unit& unit) {
    of_gpu_[at(unit.slot.gpu)].push_back(unit);
    if (unit.group >= 0) ++members_[unit.group];
    ++pending_;
    wake(unit.slot.gpu);
  }

  void wake(int gpu) {
    if (awake_[at(gpu)]) return;
    awake_[at(gpu)] = 1;
    queue_.push_back(gpu);
  }

  bool may_lose(int service, double amount) const {
    return service < 0 || reaches(p_.capacity[at(service)] - amount, p_.floor[at(service)]);
  }

  // Does a unit: layout, capacities, order. `position` on its GPU.
  void act(int gpu, std::size_t position) {
    std::vector<Unit>& units = of_gpu_[at(gpu)];
    const Unit unit = units[position];
    units.erase(units.begin() + static_cast<std::ptrdiff_t>(position));
    --pending_;
    if (unit.kind == Unit::Kind::create) p_.layout.put(unit.slot);
    if (unit.kind == Unit::Kind::destroy) p_.layout.take(unit.slot);
    if (unit.loses >= 0) p_.capacity[at(unit.loses)] -= unit.lost;
    const int others = unit.group < 0 ? 0 : --members_[unit.group];
    if (unit.loses >= 0 && others > 0) is_lost(unit.group);
    if (unit.gains >= 0 && others == 0) {
      p_.capacity[at(unit.gains)] += unit.gained;
      wake_waiting(unit.gains);
    }
    order_.push_back(unit);
    wake(gpu);
  }

  // The rest of a group has nothing more to lose.
  void is_lost(int group) {
    for (std::size_t gpu = 0; gpu < of_gpu_.size(); ++gpu)
      for (Unit& unit : of_gpu_[gpu])
        if (unit.group == group) {
          unit.loses = -1;
          wake(static_cast<int>(gpu));
        }
  }

  // GPUs where a unit waits for this service to have more than its floor.
  void wake_waiting(int service) {
    for (const int gpu : std::exchange(waiting_[at(service)], {})) wake(gpu);
  }
  void wait(int service, int gpu) { waiting_[at(service)].push_back(gpu); }

  // Does everything that harms nobody, until nothing of the kind is left.
  void settle() {
    while (next_ < queue_.size()) {
      const int gpu = queue_[next_++];
      awake_[at(gpu)] = 0;
      while (advance(gpu)) continue;
    }
    queue_.clear();
    next_ = 0;
  }

  // One harmless unit, or one group that makes room, on a GPU; false when there is none.
  bool advance(int gpu) {
    const std::vector<Unit>& units = of_gpu_[at(gpu)];
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (units[i].kind == Unit::Kind::create && p_.layout.fits(units[i].slot)) {
        act(gpu, i);
        return true;
      }
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
      const bool idle = units[i].kind == Unit::Kind::destroy && units[i].loses < 0;
      const bool swap = units[i].kind == Unit::Kind::reassign && may_lose_or_wait(units[i]);
      if (idle || swap) {
        act(gpu, i);
        return true;
      }
    }
    if (creates(gpu) == 0) return retire_one(gpu);
    const std::vector<Unit> group = cheapest_group(gpu);
    if (group.empty() || !may_lose_all(group)) return false;
    for (const Unit& unit : group) act(gpu, position(gpu, unit));
    return true;
  }

  bool may_lose_or_wait(const Unit& unit) {
    if (may_lose(unit.loses, unit.lost)) return true;
    wait(unit.loses, unit.slot.gpu);
    return false;
  }

  // With nothing left to create here, whatever is not missed may go -- stand-ins last of all.
  bool retire_one(int gpu) {
    const std::vector<Unit>& units = of_gpu_[at(gpu)];
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (units[i].kind != Unit::Kind::destroy) continue;
      if (!may_lose_or_wait(units[i])) continue;
      act(gpu, i);
      return true;
    }
    return false;
  }

  long creates(int gpu) const {
    const std::vector<Unit>& units = of_gpu_[at(gpu)];
    return std::count_if(units.begin(), units.end(),
                         [](const Unit& unit) { return unit.kind == Unit::Kind::create; });
  }

  std::size_t position(int gpu, const Unit& unit) const {
    const std::vector<Unit>& units = of_gpu_[at(gpu)];
    const auto found = std::find(units.begin(), units.end(), unit);
    CHECK(found != units.end());
    return static_cast<std::size_t>(found - units.begin());
  }

  // Destroys of this GPU that make room for one of its creates: those that overlap it and, where
  // another rule stands in the way, further ones until it fits.
  std::vector<Unit> group_for(int gpu, const Unit& create) const {
    std::vector<Unit> group;
    std::vector<Slot> without;
    for (const bool overlapping : {true, false}) {
      for (const Unit& unit : of_gpu_[at(gpu)]) {
        if (unit.kind != Unit::Kind::destroy) continue;
        if (((slices_of(unit.slot) & slices_of(create.slot)) != 0) != overlapping) continue;
        if (!overlapping && p_.layout.fits_without(create.slot, without)) break;
        group.push_back(unit);
        without.push_back(unit.slot);
      }
    }
    return p_.layout.fits_without(create.slot, without) ? group : std::vector<Unit>{};
  }

  // Of the groups of a GPU that with the least capacity below the floors; of equals the smallest.
  std::vector<Unit> cheapest_group(int gpu) {
    std::vector<Unit> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Unit& unit : of_gpu_[at(gpu)]) {
      if (unit.kind != Unit::Kind::create) continue;
      std::vector<Unit> group = group_for(gpu, unit);
      if (group.empty()) continue;
      const double missing = missing_after(group);
      if (missing > least || (missing == least && group.size() >= best.size())) continue;
      least = missing;
      best = std::move(group);
    }
    return best;
  }

  // Capacity by which services are short of their floors once the group is gone, as shares.
  double missing_after(const std::vector<Unit>& group) const {
    double missing = 0;
    for (const auto& [service, lost] : losses(group)) {
      const double floor = p_.floor[at(service)];
      const double left = p_.capacity[at(service)] - lost;
      if (!reaches(left, floor)) missing += (floor - left) / floor;
    }
    return missing;
  }

  static std::vector<std::pair<int, double>> losses(const std::vector<Unit>& group) {
    std::vector<std::pair<int, double>> lost;
    for (const Unit& unit : group) {
      if (unit.loses < 0) continue;
      const auto found = std::find_if(lost.begin(), lost.end(),
                                      [&](const auto& one) { return one.first == unit.loses; });
      if (found == lost.end())
        lost.emplace_back(unit.loses, unit.lost);
      else
        found->second += unit.lost;
    }
    return lost;
  }

  bool may_lose_all(const std::vector<Unit>& group) {
    bool may = true;
    for (const auto& [service, lost] : losses(group)) {
      if (may_lose(service, lost)) continue;
      wait(service, group.front().slot.gpu);
      may = false;
    }
    return may;
  }

  // Puts stand-ins up for what is in the way on some GPU and would be missed, and lets that go at
  // once: a stand-in that waits is capacity to spare, which something else would take.
  bool stand_in() {
    for (int gpu = 0; gpu < p_.layout.gpus(); ++gpu) {
      const std::vector<Unit> group = creates(gpu) > 0 ? cheapest_group(gpu) : reassigned(gpu);
      const std::vector<Unit> stand_ins = stand_ins_for(missed(group), gpu);
      if (stand_ins.empty()) continue;
      for (const Unit& one : stand_ins) add_stand_in(one);
      for (const Unit& one : group) act(gpu, position(gpu, one));
      return true;
    }
    return false;
  }

  // One per unit, all of which fit together; empty when there is no room for all.
  std::vector<Unit> stand_ins_for(const std::vector<Unit>& missed, int gpu) {
    std::vector<Unit> stand_ins;
    for (const Unit& unit : missed) {
      const std::optional<Slot> slot = room_for(unit.slot, gpu);
      if (!slot) break;
      p_.layout.put(*slot);
      stand_ins.push_back({.kind = Unit::Kind::create,
                           .id = unit.id,
                           .slot = *slot,
                           .gains = unit.loses,
                           .gained = unit.lost,
                           .temporary = true});
    }
    for (const Unit& one : stand_ins) p_.layout.take(one.slot);
    if (stand_ins.size() != missed.size()) return {};
    return stand_ins;
  }

  void add_stand_in(const Unit& one) {
    add(one);
    act(one.slot.gpu, position(one.slot.gpu, one));
    add({.kind = Unit::Kind::destroy,
         .id = one.id,
         .slot = one.slot,
         .loses = one.gains,
         .lost = one.gained,
         .temporary = true});
  }

  // What has to be stood in for so that a group may go: its largest members, until every service
  // keeps its floor. Empty when that is not to be had.
  std::vector<Unit> missed(std::vector<Unit> group) const {
    std::vector<Unit> chosen;
    std::sort(group.begin(), group.end(), [](const Unit& a, const Unit& b) {
      return std::tuple(-a.lost, a.id) < std::tuple(-b.lost, b.id);
    });
    for (const auto& [service, lost] : losses(group)) {
      double have = p_.capacity[at(service)] - lost;
      const double floor = p_.floor[at(service)];
      for (const Unit& unit : group) {
        if (reaches(have, floor)) break;
        if (unit.loses != service || unit.slot.profile < 0 || unit.group >= 0) continue;
        if (unit.temporary) return {};  // a stand-in is never stood in for
        chosen.push_back(unit);
        have += unit.lost;
      }
      if (!reaches(have, floor)) return {};
    }
    return chosen;
  }

  std::vector<Unit> reassigned(int gpu) const {
    for (const Unit& unit : of_gpu_[at(gpu)]) {
      if (unit.kind == Unit::Kind::reassign) return {unit};
    }
    return {};
  }

  // A free place for an instance of that profile on a GPU of the same model: one that no pending
  // create waits for, if there is one; on the emptiest GPU. On `here`, where room is being made,
  // only one that is in nobody's way to the end.
  std::optional<Slot> room_for(const Slot& like, int here) {
    const hw::GpuModel& model = p_.layout.model(like.gpu);
    std::optional<Slot> best;
    std::pair<int, int> best_key;
    for (int gpu = 0; gpu < p_.layout.gpus(); ++gpu) {
      if (&p_.layout.model(gpu) != &model) continue;
      const int free = p_.layout.free_slices(gpu);
      if (free < like.size) continue;
      for (const int start : model.profiles[at(like.profile)].starts) {
        const Slot slot{{like.profile, start}, gpu, like.size};
        if (!p_.layout.fits(slot)) continue;
        const std::pair key{wanted_by(slot), -free};
        if (best && key >= best_key) continue;
        if (gpu == here && !fits_to_the_end(slot)) continue;
        best = slot;
        best_key = key;
      }
    }
    return best;
  }

  // Whether the place is free beside all that its GPU shall have, and the stand-ins that it has.
  bool fits_to_the_end(const Slot& slot) {
    const std::vector<Unit>& units = of_gpu_[at(slot.gpu)];
    const auto goes = [](const Unit& one) {
      return one.kind == Unit::Kind::destroy && !one.temporary;
    };
    const auto comes = [](const Unit& one) { return one.kind == Unit::Kind::create; };
    for (const Unit& one : units) {
      if (goes(one)) p_.layout.take(one.slot);
    }
    for (const Unit& one : units) {
      if (comes(one)) p_.layout.put(one.slot);
    }
    const bool fits = p_.layout.fits(slot);
    for (const Unit& one : units) {
      if (comes(one)) p_.layout.take(one.slot);
    }
    for (const Unit& one : units) {
      if (goes(one)) p_.layout.put(one.slot);
    }
    return fits;
  }

  int wanted_by(const Slot& slot) const {
    int wanted = 0;
    for (const Unit& unit : of_gpu_[at(slot.gpu)]) {
      if (unit.kind == Unit::Kind::create && (slices_of(unit.slot) & slices_of(slot)) != 0)
        ++wanted;
    }
    return wanted;
  }

  // Nothing harmless is left: the least harmful group.
  void force() {
    std::vector<Unit> best;
    double least = std::numeric_limits<double>::infinity();
    for (int gpu = 0; gpu < p_.layout.gpus(); ++gpu) {
      std::vector<Unit> group = creates(gpu) > 0 ? cheapest_group(gpu) : reassigned(gpu);
      if (group.empty() || missing_after(group) >= least) continue;
      least = missing_after(group);
      best = std::move(group);
    }
    if (best.empty()) best = any_left();
    for (const Unit& unit : best) act(unit.slot.gpu, position(unit.slot.gpu, unit));
  }

  // Destroys whose service ends up at its floor by another sum: they go as they come.
  std::vector<Unit> any_left() const {
    for (const std::vector<Unit>& units : of_gpu_) {
      for (const Unit& unit : units) {
        if (unit.kind != Unit::Kind::create) return {unit};
      }
    }
    CHECK(false);  // a create that never fits: the wanted layout was illegal
    return {};
  }

  OrderProblem p_;
  std::vector<std::vector<Unit>> of_gpu_;  // pending, per GPU
  std::size_t pending_ = 0;
  std::map<int, int> members_;  // pending, per group
  std::vector<Unit> order_;
  std::vector<int> queue_;  // GPUs to look at
  std::size_t next_ = 0;
  std::vector<char> awake_;
  std::vector<std::vector<int>> waiting_;  // per service the GPUs that wait for it
};

}  // namespace

std::vector<Unit> in_order(OrderProblem problem) { return Orderer(std::move(problem)).run(); }

}  // namespace partita::actuate
