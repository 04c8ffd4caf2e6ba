#include "planners/batch/timed_proof.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace partita::planners::batch {
namespace {

constexpr int kMostTasks = 16, kMostNodes = 32, kMostColumns = 16;
constexpr std::size_t kMostKept = 24;  // states of a kind that others are compared with

using Reconfigured = plan::Reconfiguration::Op;

template <class T, int N>
using Few = std::array<T, static_cast<std::size_t>(N)>;
using Mask = std::uint32_t;
Mask bit(int i) { return Mask{1} << i; }

struct ProofState {
  Nanos now = 0;  // what was decided last begins then
  Wide lateness = 0;
  Nanos makespan = 0;
  Mask done = 0, alive = 0, used = 0;  // tasks; instances; those that have run a task
  Few<Nanos, kMostNodes> free = {};    // of an instance: its creation or last task has ended
  Few<Nanos, kMostColumns> gone = {};  // of a column without one: the last one is destroyed
  Few<Nanos, kMostColumns> reconfigurer = {};
  Few<Nanos, kMostTasks> end = {};
};

struct Decided {
  enum class Kind { task, create, destroy } kind = Kind::task;
  Nanos begin = 0;
  int node = 0, task = 0;
};

class Prover {
 public:
  Prover(const TimedBatch& batch, const TimedBounds& bounds, const ProofAim& aim)
      : batch_(batch), bounds_(bounds), aim_(aim), best_(aim.than) {
    const int nodes = static_cast<int>(batch.forest.nodes.size());
    for (int v = 0; v < nodes; ++v) {
      for (int u = 0; u < nodes; ++u)
        conflicts_[at(v)] |= u != v && batch.forest.conflict(u, v) ? bit(u) : 0;
      least_create_ = std::min(least_create_, node(v).create);
    }
    if (!aim.with_lateness) best_.lateness = 0;
  }

  TimedProof run() {
    visit({});
    proof_.complete = proof_.states < aim_.states;
    return std::move(proof_);
  }

 private:
  int tasks() const { return batch_.forest.tasks; }
  int nodes() const { return static_cast<int>(batch_.forest.nodes.size()); }
  const Node& node(int v) const { return batch_.forest.nodes[at(v)]; }
  Wide lateness(int task, Nanos end) const {
    if (!aim_.with_lateness || end <= batch_.deadline[at(task)]) return 0;
    return Wide{batch_.weight[at(task)]} * (end - batch_.deadline[at(task)]);
  }
  template <class Look>
  void each_column(int v, const Look& look) const {
    for (int c = node(v).first_column; c < node(v).first_column + node(v).columns; ++c) look(at(c));
  }

  void visit(const ProofState& state) {
    if (++proof_.states >= aim_.states) return;
    if (std::popcount(state.done) == tasks()) return record(state);
    if (!hopeful(state) || dominated(state)) return;
    for (const Decided& next : decisions(state)) {
      path_.push_back(next);
      visit(after(state, next));
      path_.pop_back();
      if (proof_.states >= aim_.states) return;
    }
  }

  // ---- bounds

  // When a task could begin on a node at the earliest, but for the task.
  Nanos earliest(const ProofState& state, int v) const {
    if (state.alive & bit(v)) return std::max(state.free[at(v)], state.now);
    const Nanos from = std::max(state.now, state.reconfigurer[reconfigurer_of(v)]);
    Nanos ready = from, destroyed = from;
    for (Mask left = state.alive & conflicts_[at(v)]; left != 0; left &= left - 1) {
      const int u = std::countr_zero(left);
      ready = std::max(ready, std::max(from, state.free[at(u)]) + node(u).destroy);
      destroyed += node(u).destroy;
    }
    ready = std::max(ready, destroyed);
    each_column(v, [&](std::size_t c) { ready = std::max(ready, state.gone[c]); });
    return ready + node(v).create;
  }
  std::size_t reconfigurer_of(int v) const { return at(batch_.forest.reconfigurer_of(v)); }

  // Whether something better than the best may follow.
  bool hopeful(const ProofState& state) const {
    if (std::popcount(state.alive & ~state.used) > tasks() - std::popcount(state.done))
      return false;
    Few<Nanos, kMostNodes> from = {};
    for (int v = 0; v < nodes(); ++v) from[at(v)] = earliest(state, v);
    Few<Nanos, kMostTasks> end = state.end, ready = {};
    Wide late = state.lateness;
    Nanos span = state.makespan;
    for (const int t : batch_.topological) {
      if (state.done & bit(t)) continue;
      ready[at(t)] = batch_.release[at(t)];
      for (const int before : batch_.before[at(t)])
        ready[at(t)] = std::max(ready[at(t)], end[at(before)]);
      Nanos& first = end[at(t)] = kNever;
      for (int v = 0; v < nodes(); ++v)
        first = std::min(first, std::max(from[at(v)], ready[at(t)]) + batch_.forest.time(t, v));
      late += lateness(t, first);
      span = std::max(span, first + bounds_.tail[at(t)]);
    }
    if (late != best_.lateness) return late < best_.lateness;
    return span < best_.makespan && has_room(state, from, ready);
  }

  // Whether what is left fits into the columns before the best makespan.
  bool has_room(const ProofState& state, const Few<Nanos, kMostNodes>& from,
                const Few<Nanos, kMostTasks>& ready) const {
    Wide needed = 0;
    for (int t = 0; t < tasks(); ++t) {
      if (state.done & bit(t)) continue;
      Nanos least = kNever;
      for (int v = 0; v < nodes(); ++v) {
        const Nanos time = batch_.forest.time(t, v);
        if (std::max(from[at(v)], ready[at(t)]) + time + bounds_.tail[at(t)] < best_.makespan)
          least = std::min(least, time * node(v).columns);
      }
      if (least == kNever) return false;
      needed += least;
    }
    Wide room = 0;
    Few<Nanos, kMostColumns> free = state.gone;
    for (Nanos& one : free) one = std::max(one, state.now) + least_create_;
    for (Mask left = state.alive; left != 0; left &= left - 1) {
      const int v = std::countr_zero(left);
      each_column(v, [&](std::size_t c) { free[c] = from[at(v)]; });
    }
    for (int c = 0; c < batch_.forest.columns(); ++c)
      room += std::max<Nanos>(0, best_.makespan - 1 - free[at(c)]);
    return needed <= room;
  }

  // ---- dominance

  bool dominated(const ProofState& state) {
    std::vector<Nanos> now = {state.now, state.makespan};
    for (int r = 0; r < batch_.forest.reconfigurers(); ++r)
      now.push_back(std::max(state.now, state.reconfigurer[at(r)]));
    Mask covered = 0;
    for (int v = 0; v < nodes(); ++v) {
      if (!(state.alive & bit(v))) continue;
      now.push_back(std::max(state.now, state.free[at(v)]));
      each_column(v, [&](std::size_t c) { covered |= bit(static_cast<int>(c)); });
    }
    for (int c = 0; c < batch_.forest.columns(); ++c)
      if (!(covered & bit(c))) now.push_back(std::max(state.now, state.gone[at(c)]));
    for (int t = 0; t < tasks(); ++t) {
      const auto waits = [&](int next) { return !(state.done & bit(next)); };
      if ((state.done & bit(t)) && std::ranges::any_of(batch_.behind[at(t)], waits))
        now.push_back(std::max(state.now, state.end[at(t)]));
    }
    auto& met = met_[{state.done, state.alive, state.used}];
    for (const auto& [late, times] : met) {
      if (late <= state.lateness && std::ranges::equal(times, now, std::less_equal<>()))
        return true;
    }
    std::erase_if(met, [&](const auto& one) {
      return state.lateness <= one.first &&
             std::ranges::equal(now, one.second, std::less_equal<>());
    });
    if (met.size() < kMostKept) met.emplace_back(state.lateness, std::move(now));
    return false;
  }

  // ---- what may be decided next

  std::vector<Decided> decisions(const ProofState& state) const {
    using Kind = Decided::Kind;
    std::vector<Decided> all;
    const auto add = [&](Kind kind, Nanos begin, int v, int t) {
      // What could begin before what was decided last was decided there.
      if (begin >= state.now) all.push_back({kind, begin, v, t});
    };
    for (int v = 0; v < nodes(); ++v) {
      const Nanos reconfigurer = state.reconfigurer[reconfigurer_of(v)];
      if (state.alive & bit(v)) {
        for (int t = 0; t < tasks(); ++t) {
          if (may_begin(state, t) && batch_.forest.time(t, v) < kNever)
            add(Kind::task, std::max(state.free[at(v)], ready(state, t)), v, t);
        }
        if (state.used & bit(v))
          add(Kind::destroy, std::max(reconfigurer, state.free[at(v)]), v, 0);
      } else if ((state.alive & conflicts_[at(v)]) == 0 && wanted(state, v) &&
                 !mirrored(state, v)) {
        Nanos begin = reconfigurer;
        each_column(v, [&](std::size_t c) { begin = std::max(begin, state.gone[c]); });
        add(Kind::create, begin, v, 0);
      }
    }
    std::ranges::stable_sort(all, {}, [](const Decided& one) { return one.begin; });
    return all;
  }

  bool may_begin(const ProofState& state, int t) const {
    return !(state.done & bit(t)) && std::ranges::all_of(batch_.before[at(t)], [&](int before) {
      return (state.done & bit(before)) != 0;
    });
  }
  Nanos ready(const ProofState& state, int t) const {
    Nanos ready = batch_.release[at(t)];
    for (const int before : batch_.before[at(t)]) ready = std::max(ready, state.end[at(before)]);
    return ready;
  }
  bool wanted(const ProofState& state, int v) const {
    for (int t = 0; t < tasks(); ++t)
      if (!(state.done & bit(t)) && batch_.forest.time(t, v) < kNever) return true;
    return false;
  }

  // A node on or above it has an equal one before it, both without instances and alike: whatever
  // begins here could as well there.
  bool mirrored(const ProofState& state, int v) const {
    for (int a = v; a >= 0; a = node(a).parent) {
      for (int b = 0; b < a; ++b) {
        if (node(b).parent == node(a).parent && node(b).size_class == node(a).size_class &&
            alike(state, a, b))
          return true;
      }
    }
    return false;
  }
  bool alike(const ProofState& state, int a, int b) const {
    const Mask inside = conflicts_[at(a)] | bit(a) | conflicts_[at(b)] | bit(b);
    if ((state.alive & inside) != 0) return false;
    if (state.reconfigurer[reconfigurer_of(a)] != state.reconfigurer[reconfigurer_of(b)])
      return false;
    for (int i = 0; i < node(a).columns; ++i) {
      if (std::max(state.now, state.gone[at(node(a).first_column + i)]) !=
          std::max(state.now, state.gone[at(node(b).first_column + i)]))
        return false;
    }
    return true;
  }

  ProofState after(const ProofState& state, const Decided& next) const {
    ProofState then = state;
    then.now = next.begin;
    const int v = next.node;
    switch (next.kind) {
      case Decided::Kind::task: {
        const Nanos end = next.begin + batch_.forest.time(next.task, v);
        then.free[at(v)] = then.end[at(next.task)] = end;
        then.makespan = std::max(then.makespan, end);
        then.lateness += lateness(next.task, end);
        then.done |= bit(next.task);
        then.used |= bit(v);
        break;
      }
      case Decided::Kind::create:
        then.free[at(v)] = then.reconfigurer[reconfigurer_of(v)] = next.begin + node(v).create;
        then.alive |= bit(v);
        then.used &= ~bit(v);
        break;
      case Decided::Kind::destroy:
        then.reconfigurer[reconfigurer_of(v)] = next.begin + node(v).destroy;
        each_column(v, [&](std::size_t c) { then.gone[c] = next.begin + node(v).destroy; });
        then.alive &= ~bit(v);
        then.used &= ~bit(v);
        break;
    }
    return then;
  }

  void record(const ProofState& state) {
    const Worth worth{.lateness = state.lateness, .makespan = state.makespan};
    if (std::tuple(worth.lateness, worth.makespan) >= std::tuple(best_.lateness, best_.makespan))
      return;
    best_ = worth;
    Physical physical;
    physical.node.resize(at(tasks()));
    physical.begin.resize(at(tasks()));
    physical.end.resize(at(tasks()));
    for (const Decided& one : path_) {
      if (one.kind == Decided::Kind::task) {
        physical.node[at(one.task)] = one.node;
        physical.begin[at(one.task)] = one.begin;
        physical.end[at(one.task)] = state.end[at(one.task)];
        continue;
      }
      const bool create = one.kind == Decided::Kind::create;
      physical.ops.push_back(
          {create ? Reconfigured::create : Reconfigured::destroy, one.node, one.begin,
           one.begin + (create ? node(one.node).create : node(one.node).destroy)});
    }
    physical.makespan = state.makespan;
    proof_.better = std::move(physical);
  }

  const TimedBatch& batch_;
  const TimedBounds& bounds_;
  const ProofAim aim_;
  Worth best_;
  Few<Mask, kMostNodes> conflicts_ = {};
  Nanos least_create_ = kNever;
  std::map<std::tuple<Mask, Mask, Mask>, std::vector<std::pair<Wide, std::vector<Nanos>>>> met_;
  std::vector<Decided> path_;
  TimedProof proof_;
};

}  // namespace

bool provable(const TimedBatch& batch) {
  return batch.forest.tasks <= kMostTasks &&
         batch.forest.nodes.size() <= static_cast<std::size_t>(kMostNodes) &&
         batch.forest.columns() <= kMostColumns && batch.width.empty() &&
         batch.start.alive.empty() && batch.start.column.empty();
}

TimedProof prove(const TimedBatch& batch, const TimedBounds& bounds, const ProofAim& aim) {
  return Prover(batch, bounds, aim).run();
}

}  // namespace partita::planners::batch
