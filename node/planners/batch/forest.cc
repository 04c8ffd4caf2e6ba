#include "planners/batch/forest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"

namespace partita::planners::batch {
namespace {

// A placement of a GPU model with the memory slices that it covers.
struct Place : hw::PlacedProfile {
  int size = 0;
  int gpcs = 0;
  int end() const { return start + size; }
  bool contains(const Place& other) const { return start <= other.start && other.end() <= end(); }
  bool meets(const Place& other) const { return start < other.end() && other.start < end(); }
};

// The nodes of one GPU of a model, with columns and parents counted from 0.
struct Tree {
  std::vector<Node> nodes;
  int columns = 0;
};

// Of a GPU's media extensions one instance has all.
bool has_extensions(const hw::MigProfile& profile) { return profile.name.ends_with("+me"); }

using Profiles = std::vector<int>;  // indices

Profiles whole_profiles(const hw::GpuModel& model) {
  Profiles all;
  for (std::size_t i = 0; i < model.profiles.size(); ++i) {
    const hw::MigProfile& profile = model.profiles[i];
    if (profile.plain() || profile.double_memory() || has_extensions(profile))
      all.push_back(static_cast<int>(i));
  }
  return all;
}

// All placements, larger ones first where they nest: by start, falling size, falling gpcs.
std::vector<Place> places_of(const hw::GpuModel& model, const Profiles& profiles) {
  std::vector<Place> places;
  for (const int index : profiles) {
    const hw::MigProfile& profile = model.profiles[static_cast<std::size_t>(index)];
    for (const int start : profile.starts) {
      places.push_back({{index, start}, profile.size, profile.gpcs});
    }
  }
  std::ranges::sort(
      places, {}, [](const Place& p) { return std::tuple(p.start, -p.size, -p.gpcs, p.profile); });
  return places;
}

Result<void> check_nesting(const hw::GpuModel& model, const std::vector<Place>& places) {
  for (const Place& a : places) {
    for (const Place& b : places) {
      if (a.meets(b) && !a.contains(b) && !b.contains(a)) {
        return bad_input(model.name,
                         fmt::format("instances at memory slices {} and {} overlap without one "
                                     "containing the other: no batches on this GPU model",
                                     a.start, b.start));
      }
    }
  }
  return {};
}

// Whether all disjoint ones may exist together, where they nest or are disjoint: then every set
// of pairwise disjoint ones is part of a set of disjoint leaves and inner nodes, each legal.
Result<void> check_together(const hw::GpuModel& model, const std::vector<Place>& places) {
  // A set of disjoint places is legal when a larger one is: try those that leave no gap which a
  // place could fill.
  std::vector<hw::PlacedProfile> chosen;
  const auto legal = [&](auto&& self, int from) -> bool {
    const auto next = std::ranges::find_if(places, [&](const Place& p) { return p.start >= from; });
    if (next == places.end()) return hw::conflicts(model, chosen).empty();
    bool fills = false;  // a place of one slice: never worse than a gap
    for (auto place = next; place != places.end() && place->start == next->start; ++place) {
      chosen.push_back(*place);
      const bool fine = self(self, place->end());
      chosen.pop_back();
      if (!fine) return false;
      fills = fills || place->size == 1;
    }
    return fills || self(self, next->start + 1);
  };
  if (legal(legal, 0)) return {};
  return bad_input(model.name,
                   "some disjoint instances cannot exist together: no batches on "
                   "this GPU model");
}

// Per memory slice its column, or -1: a slice gets a column unless an earlier or more crowded slice
// is covered by all instances that cover it.
std::vector<int> columns_of(const hw::GpuModel& model, const std::vector<Place>& places) {
  const auto slices = static_cast<std::size_t>(model.memory_slices);
  std::vector<std::vector<bool>> covers(slices, std::vector<bool>(places.size()));
  for (std::size_t s = 0; s < slices; ++s) {
    for (std::size_t p = 0; p < places.size(); ++p) {
      covers[s][p] =
          places[p].start <= static_cast<int>(s) && static_cast<int>(s) < places[p].end();
    }
  }
  const auto within = [&](std::size_t a, std::size_t b) {
    for (std::size_t p = 0; p < places.size(); ++p) {
      if (covers[a][p] && !covers[b][p]) return false;
    }
    return true;
  };
  std::vector<int> column(slices, -1);
  int next = 0;
  for (std::size_t s = 0; s < slices; ++s) {
    bool dominated = false;
    for (std::size_t t = 0; t < slices; ++t) {
      if (t != s && within(s, t) && (!within(t, s) || t < s)) dominated = true;
    }
    if (!dominated) column[s] = next++;
  }
  return column;
}

Nanos reconfiguration_time(const hw::GpuModel& model, int gpcs, bool create) {
  for (const hw::ReconfigurationTime& time : model.reconfiguration) {
    if (time.gpcs == gpcs) return plan::nanos(create ? time.create : time.destroy);
  }
  return 0;
}

Result<Tree> tree_of(const hw::GpuModel& model, const Profiles& profiles) {
  const std::vector<Place> places = places_of(model, profiles);
  TRY(check_nesting(model, places));
  const std::vector<Place> plain = places_of(model, hw::plain_profiles(model));
  TRY(check_together(model, plain));
  const std::vector<int> column = columns_of(model, places);
  Tree tree;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    Node node{place};
    node.plain = model.profiles[at(place.profile)].plain();
    node.first_column = -1;
    for (int s = place.start; s < place.end(); ++s) {
      const int c = column[static_cast<std::size_t>(s)];
      if (c < 0) continue;
      if (node.first_column < 0) node.first_column = c;
      ++node.columns;
    }
    CHECK(node.columns > 0);
    for (std::size_t k = 0; k < i; ++k) {  // the last earlier place that contains it is smallest
      if (places[k].contains(place)) node.parent = static_cast<int>(k);
    }
    node.create = reconfiguration_time(model, place.gpcs, true);
    node.destroy = reconfiguration_time(model, place.gpcs, false);
    tree.nodes.push_back(node);
  }
  tree.columns = static_cast<int>(std::ranges::count_if(column, [](int c) { return c >= 0; }));
  return tree;
}

}  // namespace

bool Forest::conflict(int a, int b) const {
  const Node& x = nodes[static_cast<std::size_t>(a)];
  const Node& y = nodes[static_cast<std::size_t>(b)];
  return (x.first_column < y.first_column + y.columns &&
          y.first_column < x.first_column + x.columns) ||
         (x.token >= 0 && x.token == y.token);
}

namespace {

constexpr int kOtherClass = 1'000;

// Plain profiles of a model are of one class where they have the same size.
int class_key(const hw::GpuModel& model, int profile) {
  const hw::MigProfile& of = model.profiles[at(profile)];
  return of.plain() ? of.gpcs : kOtherClass + profile;
}

// Numbers the (model, size) pairs, and fills in Forest::times.
std::vector<std::map<int, int>> fill_times(Forest& forest, const plan::BatchProblem& problem,
                                           const std::vector<Profiles>& profiles) {
  std::vector<std::map<int, int>> class_of(problem.models.size());
  std::vector<std::pair<std::size_t, int>> classes;
  for (std::size_t m = 0; m < problem.models.size(); ++m) {
    for (const int index : profiles[m]) {
      const int key = class_key(problem.models[m], index);
      if (!class_of[m].emplace(key, static_cast<int>(classes.size())).second) continue;
      classes.emplace_back(m, key);
    }
  }
  forest.tasks = static_cast<int>(problem.tasks.size());
  forest.classes = static_cast<int>(classes.size());
  forest.class_columns.assign(classes.size(), 0);
  forest.times.reserve(problem.tasks.size() * classes.size());
  for (const plan::Task& task : problem.tasks) {
    CHECK(task.times.size() == problem.models.size());
    for (const auto& [model, gpcs] : classes) {
      const Nanos time = gpcs < kOtherClass ? task.times[model][gpcs] : 0;
      forest.times.push_back(time > 0 ? time : kNever);
    }
  }
  return class_of;
}

// The nodes with media extensions of each GPU that has any share a token.
void add_tokens(Forest& forest, const plan::BatchProblem& problem) {
  int gpu = -1;
  for (Node& node : forest.nodes) {
    const hw::GpuModel& model = problem.models[at(problem.gpus[at(node.gpu)])];
    if (!has_extensions(model.profiles[at(node.profile)])) continue;
    if (node.gpu != gpu) ++forest.tokens;
    gpu = node.gpu;
    node.token = forest.columns() + forest.tokens - 1;
  }
}

Result<Forest> forest_of(const plan::BatchProblem& problem, const std::vector<Profiles>& profiles) {
  std::vector<Tree> trees;
  for (std::size_t m = 0; m < problem.models.size(); ++m) {
    Tree tree = TRY(tree_of(problem.models[m], profiles[m]));
    trees.push_back(std::move(tree));
  }
  Forest forest;
  const std::vector<std::map<int, int>> class_of = fill_times(forest, problem, profiles);
  forest.gpus = static_cast<int>(problem.gpus.size());
  forest.reconfigurer = problem.reconfigurer;
  forest.first_node.push_back(0);
  forest.first_column.push_back(0);
  for (std::size_t gpu = 0; gpu < problem.gpus.size(); ++gpu) {
    const auto model = static_cast<std::size_t>(problem.gpus[gpu]);
    const int base = forest.first_node.back();
    for (Node node : trees[model].nodes) {
      node.gpu = static_cast<int>(gpu);
      node.first_column += forest.first_column.back();
      if (node.parent >= 0) node.parent += base;
      node.size_class = class_of[model].at(class_key(problem.models[model], node.profile));
      int& columns = forest.class_columns[static_cast<std::size_t>(node.size_class)];
      columns = columns == 0 ? node.columns : std::min(columns, node.columns);
      forest.nodes.push_back(node);
    }
    forest.first_node.push_back(static_cast<int>(forest.nodes.size()));
    forest.first_column.push_back(forest.first_column.back() + trees[model].columns);
  }
  add_tokens(forest, problem);
  forest.children.resize(forest.nodes.size());
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    const int parent = forest.nodes[i].parent;
    if (parent >= 0) {
      forest.children[static_cast<std::size_t>(parent)].push_back(static_cast<int>(i));
    }
  }
  return forest;
}

}  // namespace

Result<Forest> make_forest(const plan::BatchProblem& problem) {
  std::vector<Profiles> profiles;
  for (const hw::GpuModel& model : problem.models) profiles.push_back(hw::plain_profiles(model));
  return forest_of(problem, profiles);
}

Result<Forest> make_whole_forest(const plan::BatchProblem& problem) {
  std::vector<Profiles> profiles;
  for (const hw::GpuModel& model : problem.models) profiles.push_back(whole_profiles(model));
  return forest_of(problem, profiles);
}

Nanos least_area(const Forest& forest, int task) {
  Nanos least = kNever;
  for (int k = 0; k < forest.classes; ++k) {
    const Nanos time = forest.times[static_cast<std::size_t>(task * forest.classes + k)];
    const int columns = forest.class_columns[static_cast<std::size_t>(k)];
    if (time < kNever && columns > 0) least = std::min(least, time * columns);
  }
  return least;
}

namespace {

// How many creates must have been begun before a GPU's own first one, at least: 0 for the first
// GPU of each reconfigurer, 1 for the second and so on, in rising order over all GPUs.
std::vector<int> creates_before(const Forest& forest) {
  std::vector<int> before, used(at(forest.reconfigurers()), 0);
  for (int gpu = 0; gpu < forest.gpus; ++gpu) {
    before.push_back(used[at(forest.reconfigurer.number(gpu))]++);
  }
  std::ranges::sort(before);
  return before;
}

// The mean column when so much area is spread over k GPUs at best, whatever k is. A GPU with j
// others before it in its reconfigurer's queue is idle for j + 1 creates. Takes all GPUs for as
// wide as the widest, those with the shortest queues first, which no k GPUs surpass.
Nanos queued_area_bound(const Forest& forest, __int128 area, Nanos create) {
  __int128 widest = 0, idle = 0, columns = 0;
  for (int gpu = 0; gpu < forest.gpus; ++gpu) {
    const int width = forest.first_column[at(gpu + 1)] - forest.first_column[at(gpu)];
    widest = std::max<__int128>(widest, width);
  }
  __int128 least = kNever;
  for (const int before : creates_before(forest)) {
    idle += widest * (before + 1) * create;
    columns += widest;
    least = std::min(least, (area + idle + columns - 1) / columns);
  }
  return static_cast<Nanos>(least);
}

}  // namespace

Nanos area_bound(const Forest& forest) {
  __int128 area = 0;
  Nanos longest = 0;
  for (int task = 0; task < forest.tasks; ++task) {
    area += least_area(forest, task);
    Nanos shortest = kNever;
    for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
      const Nanos time = forest.time(task, static_cast<int>(v));
      if (time < kNever) shortest = std::min(shortest, time + forest.nodes[v].create);
    }
    longest = std::max(longest, shortest);
  }
  if (forest.tasks == 0) return 0;
  Nanos create = kNever;
  for (const Node& node : forest.nodes) create = std::min(create, node.create);
  const int columns = forest.columns();
  const Nanos mean = create + static_cast<Nanos>((area + columns - 1) / columns);
  return std::max({longest, mean, queued_area_bound(forest, area, create)});
}

}  // namespace partita::planners::batch
