#include "planners/batch/far.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "planners/batch/far_family.h"
#include "planners/batch/far_refine.h"
#include "planners/batch/fifo.h"
#include "planners/batch/opened.h"

namespace partita::planners::batch {
namespace {

// Algorithm 1 for one allocation after the other; buffers live as long as the lister.
class Lister {
 public:
  explicit Lister(const Forest& forest)
      : forest_(forest),
        reconfigured_(at(forest.gpus)),
        next_(at(forest.classes)),
        created_(forest.nodes.size()),
        assignment_(at(forest.tasks)) {
    for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
      if (forest.nodes[v].parent < 0) roots_.push_back({0, static_cast<int>(v)});
    }
    heap_.reserve(forest.nodes.size());
  }

  // The makespan, or nothing when it is not below the limit. Ties of instances that end at the same
  // time go to the lower node.
  std::optional<Nanos> run(const AllocationFamily& family, Nanos limit) {
    start(family.models() > 1);
    const auto& lists = family.lists();
    int left = forest_.tasks;
    Nanos makespan = 0;
    while (left > 0) {
      CHECK(!heap_.empty());
      auto [end, v] = heap_.front();
      const Node& node = forest_.nodes[at(v)];
      const auto& list = lists[at(node.size_class)];
      std::size_t& next = next_[at(node.size_class)];
      while (!listed_.empty() && next < list.size() && listed_[at(list[next].task)]) ++next;
      Nanos& reconfigured = reconfigured_[at(node.gpu)];
      if (next == list.size()) {
        if (created_[at(v)]) reconfigured = std::max(reconfigured, end) + node.destroy;
        repartition(end, v);
        continue;
      }
      if (!created_[at(v)]) {
        created_[at(v)] = true;
        end = reconfigured = std::max(reconfigured, end) + node.create;
      }
      end += list[next].time;
      if (end >= limit) return std::nullopt;
      makespan = std::max(makespan, end);
      const int task = list[next++].task;
      assignment_[at(task)] = v;
      if (!listed_.empty()) listed_[at(task)] = true;
      --left;
      ++count_;
      replace_first({end, v});
    }
    return makespan;
  }

  const std::vector<int>& assignment() const { return assignment_; }
  long listed() const { return count_; }

 private:
  struct Entry {
    Nanos end = 0;
    int node = 0;
    bool before(const Entry& other) const {
      return end != other.end ? end < other.end : node < other.node;
    }
  };

  void start(bool several_models) {
    heap_ = roots_;
    std::ranges::fill(reconfigured_, 0);
    std::ranges::fill(next_, 0);
    std::fill(created_.begin(), created_.end(), false);
    if (several_models) listed_.assign(at(forest_.tasks), false);
  }

  // The children take the place of an instance that has no more tasks.
  void repartition(Nanos end, int v) {
    const std::vector<int>& children = forest_.children[at(v)];
    if (children.empty()) {
      const Entry last = heap_.back();
      heap_.pop_back();
      if (!heap_.empty()) replace_first(last);
      return;
    }
    replace_first({end, children.front()});
    for (std::size_t c = 1; c < children.size(); ++c) add({end, children[c]});
  }

  void replace_first(Entry entry) {
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(entry)) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = entry;
  }

  void add(Entry entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(),
                   [](const Entry& a, const Entry& b) { return b.before(a); });
  }

  const Forest& forest_;
  std::vector<Entry> roots_;
  std::vector<Entry> heap_;          // the instance that ends first in front
  std::vector<Nanos> reconfigured_;  // per GPU
  std::vector<std::size_t> next_;    // per class the first of its list not yet listed
  std::vector<bool> created_;        // per node
  std::vector<bool> listed_;         // per task, with several models only
  std::vector<int> assignment_;
  long count_ = 0;
};

// The shortest list schedules so far, and what a further one must stay below.
class Shortlist {
 public:
  explicit Shortlist(int most) : most_(std::max<std::size_t>(1, at(most))) {}

  Nanos limit() const { return kept_.size() < most_ ? kNever : kept_.back().makespan; }

  void add(const std::vector<int>& assignment, Nanos makespan) {
    const auto same = [&](const ListSchedule& kept) { return kept.assignment == assignment; };
    if (std::ranges::any_of(kept_, same)) return;
    if (kept_.size() == most_) kept_.pop_back();
    const auto place = std::ranges::upper_bound(kept_, makespan, {}, &ListSchedule::makespan);
    kept_.insert(place, {assignment, makespan});
  }

  std::vector<ListSchedule> take() && { return std::move(kept_); }

 private:
  std::size_t most_;
  std::vector<ListSchedule> kept_;  // by makespan, then order in the family
};

struct Listed {
  std::vector<ListSchedule> schedules;
  long count = 0;
};

// Phases 1 and 2.
Listed list_family(const Forest& forest, int most, bool first_only) {
  AllocationFamily family(forest);
  Lister lister(forest);
  Shortlist shortlist(most);
  do {
    if (family.area_bound() >= shortlist.limit()) break;  // so are those of all later ones
    if (family.rigid_bound() >= shortlist.limit()) continue;
    const std::optional<Nanos> makespan = lister.run(family, shortlist.limit());
    if (makespan) shortlist.add(lister.assignment(), *makespan);
  } while (!first_only && lister.listed() < kMaxListed && family.next());
  return {std::move(shortlist).take(), lister.listed()};
}

struct Made {
  Visits visits;
  Physical physical;
};

Made make(const Forest& forest, const std::vector<int>& assignment) {
  Made made;
  made.visits =
      visits_of(forest, assignment, Direction::forward, longest_first(forest, assignment));
  auto physical = realise(forest, made.visits, Service::first_ready);
  CHECK(physical.has_value());
  made.physical = std::move(*physical);
  return made;
}

std::optional<FarPhases> parse_phases(const std::string& argument) {
  if (argument.empty()) return FarPhases::whole;
  if (argument == "unrefined") return FarPhases::unrefined;
  if (argument == "first") return FarPhases::first;
  return std::nullopt;
}

// The visits in an order in which no task comes before its predecessors; the better of that and
// FAR's own, if that can be done at all.
std::optional<Physical> realise_timed(const Forest& forest, const plan::BatchProblem& problem,
                                      const FarResult& result) {
  std::vector<int> order;
  for (const Visit& visit : result.visits) {
    order.insert(order.end(), visit.tasks.begin(), visit.tasks.end());
  }
  auto own = realise(forest, result.visits, Service::first_ready, {}, &problem);
  auto one_by_one = realise(forest, visits_in_order(result.assignment, in_order(problem, order)),
                            Service::first_ready, {}, &problem);
  if (!own || (one_by_one && one_by_one->makespan < own->makespan)) return one_by_one;
  return own;
}

}  // namespace

FarResult far_on(const Forest& forest, FarPhases phases) {
  Listed listed = list_family(forest, 1, phases == FarPhases::first);
  CHECK(listed.schedules.size() == 1);
  FarResult result;
  result.assignment = std::move(listed.schedules.front().assignment);
  result.list_makespan = listed.schedules.front().makespan;
  result.listed = listed.count;
  Made made = make(forest, result.assignment);
  result.unrefined_makespan = made.physical.makespan;
  if (phases == FarPhases::whole) {
    Refined refined = refine(forest, result.assignment, made.physical.after.column);
    result.moves = refined.moves;
    result.swaps = refined.swaps;
    if (refined.moves + refined.swaps > 0) {
      Made better = make(forest, refined.assignment);
      if (better.physical.makespan < made.physical.makespan) {
        made = std::move(better);
        result.assignment = std::move(refined.assignment);
      }
    }
  }
  result.visits = std::move(made.visits);
  result.physical = std::move(made.physical);
  result.makespan = result.physical.makespan;
  return result;
}

std::vector<ListSchedule> far_assignments(const Forest& forest, int most) {
  return list_family(forest, most, false).schedules;
}

Outcome far(const plan::BatchProblem& problem, const Options& options) {
  const std::optional<FarPhases> phases = parse_phases(options.argument);
  if (!phases) {
    return refused("argument", "scheduler far",
                   fmt::format("\"{}\" is not one of unrefined, first", options.argument));
  }
  Opened opened = open_problem(problem);
  if (!opened.forest) return std::move(opened.refusal);
  const Forest& forest = *opened.forest;
  const FarResult result = far_on(forest, *phases);
  std::optional<Physical> physical = result.physical;
  if (plan::timed(problem)) physical = realise_timed(forest, problem, result);
  CHECK(physical.has_value());
  Outcome outcome{.schedule = to_schedule(forest, problem, *physical), .refusals = {}};
  outcome.schedule->lower_bound = area_bound(forest);
  outcome.schedule->stats.nodes = result.listed;
  outcome.schedule->explanation = {fmt::format(
      "List schedules placed {} tasks; the shortest was refined by {} moves and {} swaps.",
      result.listed, result.moves, result.swaps)};
  return outcome;
}

}  // namespace partita::planners::batch
