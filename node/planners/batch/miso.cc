#include "planners/batch/miso.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "base/check.h"
#include "hw/layout.h"
#include "planners/batch/fifo.h"
#include "planners/batch/opened.h"

namespace partita::planners::batch {
namespace {

using plan::Nanos;

// A maximal layout by size; of several with the same sizes the first.
struct Partition {
  std::vector<int> sizes;          // compute slices, ascending
  std::vector<hw::Layout> places;  // per size, by start
};

std::vector<Partition> partitions_of(const hw::GpuModel& model) {
  std::vector<Partition> partitions;
  for (const hw::Layout& layout : hw::maximal_layouts(model, hw::plain_profiles(model))) {
    std::map<int, hw::Layout> by_size;
    for (const hw::PlacedProfile& placed : layout) {
      by_size[model.profiles[at(placed.profile)].gpcs].push_back(placed);
    }
    Partition partition;
    for (auto& [size, places] : by_size) {
      partition.sizes.push_back(size);
      partition.places.push_back(std::move(places));
    }
    const bool known = std::ranges::any_of(partitions, [&](const Partition& other) {
      return other.sizes == partition.sizes &&
             std::ranges::equal(other.places, partition.places, {}, &hw::Layout::size,
                                &hw::Layout::size);
    });
    if (!known) partitions.push_back(std::move(partition));
  }
  return partitions;
}

// Speedup over one slice; 0 where the task does not fit.
double speedup(const plan::SizeTimes& times, int size) {
  if (times[size] <= 0) return 0;
  int smallest = 1;
  while (times[smallest] <= 0) ++smallest;
  return smallest * static_cast<double>(times[smallest]) / static_cast<double>(times[size]);
}

// How a partition takes the next tasks: which size each gets, as an index into its sizes.
struct Placing {
  double sum = 0;
  std::vector<std::size_t> size_of;  // of the first so many tasks
};

// The greatest sum of speedups over all ways to give the first `count` tasks a place each, or
// nothing. State: how many places of each size are taken, in mixed radix.
std::optional<Placing> best_placing(const Partition& partition,
                                    std::span<const plan::SizeTimes* const> tasks) {
  std::vector<std::size_t> radix = {1};
  for (const hw::Layout& places : partition.places) {
    radix.push_back(radix.back() * (places.size() + 1));
  }
  const std::size_t states = radix.back(), kinds = partition.sizes.size();
  std::vector<double> best(states, -1), next(states);
  std::vector<std::vector<std::size_t>> taken(tasks.size(), std::vector<std::size_t>(states));
  best[0] = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::ranges::fill(next, -1);
    for (std::size_t state = 0; state < states; ++state) {
      if (best[state] < 0) continue;
      for (std::size_t k = 0; k < kinds; ++k) {
        const double gain = speedup(*tasks[t], partition.sizes[k]);
        if (gain <= 0 || state % radix[k + 1] / radix[k] == partition.places[k].size()) continue;
        const std::size_t to = state + radix[k];
        if (best[state] + gain <= next[to]) continue;
        next[to] = best[state] + gain;
        taken[t][to] = k;
      }
    }
    std::swap(best, next);
  }
  auto state = static_cast<std::size_t>(std::ranges::max_element(best) - best.begin());
  if (best[state] < 0) return std::nullopt;
  Placing placing{best[state], std::vector<std::size_t>(tasks.size())};
  for (std::size_t t = tasks.size(); t-- > 0;) {
    placing.size_of[t] = taken[t][state];
    state -= radix[taken[t][state]];
  }
  return placing;
}

// What MISO decides.
struct Decision {
  std::vector<int> order;       // FIFO
  std::vector<int> assignment;  // task -> node
  std::vector<int> round;       // per task, 0, 1, ...
  Nanos ideal = 0;              // the makespan if creates and destroys took no time
};

class Miso {
 public:
  Miso(const plan::BatchProblem& problem, const Forest& forest, MisoReading reading)
      : problem_(problem), forest_(forest), reading_(reading), columns_(at(forest.columns())) {
    for (const hw::GpuModel& model : problem.models) partitions_.push_back(partitions_of(model));
    for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
      const Node& node = forest.nodes[v];
      node_[{node.gpu, node.profile, node.start}] = static_cast<int>(v);
    }
    decision_.order = fifo_order(problem);
    decision_.assignment.assign(problem.tasks.size(), -1);
    decision_.round.assign(problem.tasks.size(), 0);
  }

  Decision run() && {
    std::size_t next = 0;
    for (int round = 0; next < decision_.order.size(); ++round) {
      std::vector<std::pair<Nanos, int>> gpus;
      for (int gpu = 0; gpu < forest_.gpus; ++gpu) gpus.emplace_back(free_from(gpu), gpu);
      std::ranges::sort(gpus);
      std::size_t taken = 0;
      for (std::size_t g = 0; taken == 0 && g < gpus.size(); ++g) {
        taken = play_round(gpus[g].second, next, round);
      }
      CHECK(taken > 0);  // every task fits somewhere
      next += taken;
    }
    return std::move(decision_);
  }

 private:
  std::span<const Nanos> columns(int gpu) const {
    const auto first = columns_.begin() + forest_.first_column[at(gpu)];
    return {first, columns_.begin() + forest_.first_column[at(gpu) + 1]};
  }

  Nanos free_from(int gpu) const {
    return reading_ == MisoReading::barrier ? std::ranges::max(columns(gpu))
                                            : std::ranges::min(columns(gpu));
  }

  // Gives the GPU the best partition for the tasks from `next` in the order on; how many it took.
  std::size_t play_round(int gpu, std::size_t next, int round) {
    const auto model = at(problem_.gpus[at(gpu)]);
    const Partition* best = nullptr;
    Placing placing;
    for (const Partition& partition : partitions_[model]) {
      std::size_t count = 0;
      for (const hw::Layout& places : partition.places) count += places.size();
      count = std::min(count, decision_.order.size() - next);
      std::vector<const plan::SizeTimes*> times;
      for (std::size_t i = 0; i < count; ++i) {
        times.push_back(&problem_.tasks[at(decision_.order[next + i])].times[model]);
      }
      for (; count > 0; --count) {
        const auto found = best_placing(partition, std::span(times).first(count));
        if (!found) continue;
        if (found->sum > placing.sum) {
          placing = *found;
          best = &partition;
        }
        break;
      }
    }
    if (best == nullptr) return 0;
    const Nanos barrier = std::ranges::max(columns(gpu));
    std::vector<std::size_t> used(best->sizes.size());
    for (std::size_t i = 0; i < placing.size_of.size(); ++i) {
      const std::size_t kind = placing.size_of[i];
      const hw::PlacedProfile& place = best->places[kind][used[kind]++];
      const int task = decision_.order[next + i];
      decision_.assignment[at(task)] = node_.at({gpu, place.profile, place.start});
      decision_.round[at(task)] = round;
      run_task(task, barrier);
    }
    return placing.size_of.size();
  }

  void run_task(int task, Nanos barrier) {
    const int index = decision_.assignment[at(task)];
    const Node& node = forest_.nodes[at(index)];
    const auto own = std::span(columns_).subspan(at(node.first_column), at(node.columns));
    const Nanos begin = reading_ == MisoReading::barrier ? barrier : std::ranges::max(own);
    std::ranges::fill(own, begin + forest_.time(task, index));
    decision_.ideal = std::max(decision_.ideal, own.front());
  }

  const plan::BatchProblem& problem_;
  const Forest& forest_;
  MisoReading reading_;
  std::vector<std::vector<Partition>> partitions_;  // per model
  std::map<std::tuple<int, int, int>, int> node_;   // by GPU, profile, start
  std::vector<Nanos> columns_;                      // when each is free, without creates
  Decision decision_;
};

// The times of rounds with barriers: of a GPU's round first the destroys of the instances in its
// way, then the creates of those it lacks, one after the other from the barrier on.
class Barriers {
 public:
  Barriers(const plan::BatchProblem& problem, const Forest& forest, const Decision& decision)
      : problem_(problem),
        forest_(forest),
        decision_(decision),
        before_(precedence(problem.tasks).before),
        alive_(at(forest.gpus)),
        ends_(at(forest.gpus)) {
    result_.node = decision.assignment;
    result_.begin.resize(problem.tasks.size());
    result_.end.resize(problem.tasks.size());
  }

  Physical run() && {
    const std::vector<int>& order = decision_.order;
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      while (last < order.size() &&
             decision_.round[at(order[last])] == decision_.round[at(order[first])]) {
        ++last;
      }
      play(std::span(order).subspan(first, last - first));
      first = last;
    }
    return std::move(result_);
  }

 private:
  int node_of(int task) const { return decision_.assignment[at(task)]; }

  Nanos operate(plan::Reconfiguration::Op op, int node, Nanos begin) {
    const Node& n = forest_.nodes[at(node)];
    const Nanos end = begin + (op == plan::Reconfiguration::Op::create ? n.create : n.destroy);
    result_.ops.push_back({op, node, begin, end});
    return end;
  }

  void play(std::span<const int> tasks) {
    const auto gpu = at(forest_.nodes[at(node_of(tasks.front()))].gpu);
    const Nanos barrier = ends_[gpu];
    Nanos reconfigured = barrier;
    std::vector<int>& alive = alive_[gpu];
    const auto in_the_way = [&](int node) {
      return std::ranges::any_of(tasks, [&](int task) {
        return node != node_of(task) && forest_.conflict(node, node_of(task));
      });
    };
    for (const int node : alive) {
      if (!in_the_way(node)) continue;
      reconfigured = operate(plan::Reconfiguration::Op::destroy, node, reconfigured);
    }
    std::erase_if(alive, in_the_way);
    for (const int task : tasks) {
      const int node = node_of(task);
      Nanos begin = barrier;
      if (std::ranges::count(alive, node) == 0) {
        begin = reconfigured = operate(plan::Reconfiguration::Op::create, node, reconfigured);
        alive.push_back(node);
      }
      begin = std::max(begin, problem_.tasks[at(task)].release);
      for (const int before : before_[at(task)]) begin = std::max(begin, result_.end[at(before)]);
      result_.begin[at(task)] = begin;
      result_.end[at(task)] = begin + forest_.time(task, node);
      ends_[gpu] = std::max(ends_[gpu], result_.end[at(task)]);
    }
    result_.makespan = std::max(result_.makespan, ends_[gpu]);
  }

  const plan::BatchProblem& problem_;
  const Forest& forest_;
  const Decision& decision_;
  std::vector<std::vector<int>> before_;
  std::vector<std::vector<int>> alive_;  // per GPU the nodes that exist
  std::vector<Nanos> ends_;              // per GPU, of its last task so far
  Physical result_;
};

std::optional<MisoReading> parse_reading(const std::string& argument) {
  if (argument.empty() || argument == "per-slice") return MisoReading::per_slice;
  if (argument == "barrier") return MisoReading::barrier;
  return std::nullopt;
}

}  // namespace

plan::Nanos miso_ideal(const plan::BatchProblem& problem, MisoReading reading) {
  const Opened opened = open_problem(problem);
  CHECK(opened.forest.has_value());
  return Miso(problem, *opened.forest, reading).run().ideal;
}

Outcome miso(const plan::BatchProblem& problem, const Options& options) {
  const std::optional<MisoReading> reading = parse_reading(options.argument);
  if (!reading) {
    return refused("argument", "scheduler miso",
                   fmt::format("\"{}\" is not one of per-slice, barrier", options.argument));
  }
  Opened opened = open_problem(problem);
  if (!opened.forest) return std::move(opened.refusal);
  const Forest& forest = *opened.forest;
  const Decision decision = Miso(problem, forest, *reading).run();
  std::optional<Physical> physical;
  if (*reading == MisoReading::barrier) {
    physical = Barriers(problem, forest, decision).run();
  } else {
    physical = realise(forest, visits_in_order(decision.assignment, decision.order),
                       Service::first_ready, {}, plan::timed(problem) ? &problem : nullptr);
  }
  CHECK(physical.has_value());
  Outcome outcome{.schedule = to_schedule(forest, problem, *physical), .refusals = {}};
  outcome.schedule->explanation = {fmt::format("If creates and destroys took no time: {} s.",
                                               plan::seconds(decision.ideal).value)};
  return outcome;
}

}  // namespace partita::planners::batch
