#include "planners/batch/fixed.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "planners/batch/fifo.h"
#include "planners/batch/opened.h"

namespace partita::planners::batch {
namespace {

std::vector<int> sizes_of(const hw::GpuModel& model, const hw::Layout& layout) {
  std::vector<int> sizes;
  for (const hw::PlacedProfile& placed : layout) {
    sizes.push_back(model.profiles[at(placed.profile)].gpcs);
  }
  std::ranges::sort(sizes, std::greater<>());
  return sizes;
}

std::vector<hw::Layout> all_layouts(const hw::GpuModel& model) {
  return hw::maximal_layouts(model, hw::plain_profiles(model));
}

// The part of a layout that has these sizes, or nothing.
std::optional<hw::Layout> part_with(const hw::GpuModel& model, const hw::Layout& layout,
                                    const std::vector<int>& sizes) {
  std::multiset<int> wanted(sizes.begin(), sizes.end());
  hw::Layout part;
  for (const hw::PlacedProfile& placed : layout) {
    const auto found = wanted.find(model.profiles[at(placed.profile)].gpcs);
    if (found == wanted.end()) continue;
    wanted.erase(found);
    part.push_back(placed);
  }
  if (!wanted.empty()) return std::nullopt;
  return part;
}

// "4g", "4", "3x1g": how many of which size; nothing when it is not one of these.
std::optional<std::pair<int, int>> parse_part(std::string_view text) {
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value <= 0 || value > hw::kMaxSlices) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
  };
  std::optional<int> size = number();
  int count = 1;
  if (size && text.starts_with('x')) {
    count = *size;
    text.remove_prefix(1);
    size = number();
  }
  if (text == "g") text = {};
  if (!size || !text.empty()) return std::nullopt;
  return std::pair(count, *size);
}

// A problem with what every layout needs again.
struct Setting {
  const plan::BatchProblem& problem;
  const Forest& forest;
  bool timed = false;
  std::vector<int> order;                         // FIFO
  std::vector<std::vector<int>> before;           // per task its predecessors; empty when untimed
  std::map<std::tuple<int, int, int>, int> node;  // by GPU, profile, start
};

Setting setting_of(const plan::BatchProblem& problem, const Forest& forest) {
  Setting setting{problem, forest, plan::timed(problem), fifo_order(problem), {}, {}};
  if (setting.timed) setting.before = precedence(problem.tasks).before;
  for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
    const Node& node = forest.nodes[v];
    setting.node[{node.gpu, node.profile, node.start}] = static_cast<int>(v);
  }
  return setting;
}

struct Instance {
  int node = 0;
  Nanos free = 0;
};

// All instances, with the end of their creation.
std::vector<Instance> instances_of(const Setting& setting, const std::vector<hw::Layout>& layouts) {
  std::vector<Instance> instances;
  for (int gpu = 0; gpu < setting.forest.gpus; ++gpu) {
    Nanos created = 0;
    for (const hw::PlacedProfile& placed : layouts[at(setting.problem.gpus[at(gpu)])]) {
      const int node = setting.node.at({gpu, placed.profile, placed.start});
      created += setting.forest.nodes[at(node)].create;
      instances.push_back({node, created});
    }
  }
  return instances;
}

struct Tried {
  int homeless = 0;  // tasks that no instance has room for
  int first_of_them = -1;
  Physical physical;  // of the others' visits, when all have a place
  auto order() const { return std::pair(homeless, physical.makespan); }
};

// One layout per GPU model.
Tried try_layouts(const Setting& setting, const std::vector<hw::Layout>& layouts) {
  std::vector<Instance> instances = instances_of(setting, layouts);
  Visits visits;
  for (const Instance& instance : instances) visits.push_back({instance.node, {}});
  std::vector<Nanos> end(setting.order.size());
  Tried tried;
  for (const int task : setting.order) {
    Nanos ready = setting.problem.tasks[at(task)].release;
    if (setting.timed) {
      for (const int before : setting.before[at(task)]) ready = std::max(ready, end[at(before)]);
    }
    std::size_t chosen = instances.size();
    Nanos begin = kNever;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      if (setting.forest.time(task, instances[i].node) >= kNever) continue;
      if (std::max(ready, instances[i].free) >= begin) continue;
      begin = std::max(ready, instances[i].free);
      chosen = i;
    }
    if (chosen == instances.size()) {
      if (tried.homeless++ == 0) tried.first_of_them = task;
      continue;
    }
    end[at(task)] = begin + setting.forest.time(task, instances[chosen].node);
    instances[chosen].free = end[at(task)];
    visits[chosen].tasks.push_back(task);
  }
  if (tried.homeless > 0) return tried;
  auto physical = realise(setting.forest, visits, Service::first_ready, {},
                          setting.timed ? &setting.problem : nullptr);
  CHECK(physical.has_value());
  tried.physical = std::move(*physical);
  return tried;
}

// What the layouts of the models that have GPUs are called.
std::string names_of(const plan::BatchProblem& problem, const std::vector<hw::Layout>& layouts) {
  std::string names;
  const std::set<int> used(problem.gpus.begin(), problem.gpus.end());
  for (const int m : used) {
    names += fmt::format("{}{} on {}", names.empty() ? "" : ", ",
                         layout_name(sizes_of(problem.models[at(m)], layouts[at(m)])),
                         problem.models[at(m)].name);
  }
  return names;
}

Outcome finish(const Setting& setting, const std::vector<hw::Layout>& layouts, const Tried& tried) {
  const std::string names = names_of(setting.problem, layouts);
  if (tried.homeless > 0) {
    return refused(
        "does_not_fit", "task " + setting.problem.tasks[at(tried.first_of_them)].name,
        fmt::format(
            "it has no time on any instance of {}{}", names,
            tried.homeless == 1 ? "" : fmt::format(", nor have {} others", tried.homeless - 1)));
  }
  Outcome outcome{.schedule = to_schedule(setting.forest, setting.problem, tried.physical),
                  .refusals = {}};
  outcome.schedule->explanation = {fmt::format("Fixed layout: {}.", names)};
  return outcome;
}

}  // namespace

Result<std::vector<int>> parse_layout(const std::string& text) {
  std::vector<int> sizes;
  std::string_view rest = text;
  while (true) {
    const std::size_t plus = rest.find('+');
    const auto part = parse_part(rest.substr(0, plus));
    if (!part || sizes.size() + at(part->first) > at(hw::kMaxSlices)) {
      return bad_input(
          "layout", fmt::format("\"{}\" is not a layout; one is written 4g+2g+1g or 7x1g", text));
    }
    sizes.insert(sizes.end(), at(part->first), part->second);
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }
  std::ranges::sort(sizes, std::greater<>());
  return sizes;
}

std::string layout_name(const std::vector<int>& sizes) {
  std::string name;
  for (std::size_t i = 0; i < sizes.size();) {
    const auto end = std::ranges::find_if(sizes.begin() + static_cast<std::ptrdiff_t>(i),
                                          sizes.end(), [&](int s) { return s != sizes[i]; });
    const auto count = static_cast<std::size_t>(end - sizes.begin()) - i;
    if (!name.empty()) name += '+';
    // Two of a size are written out, more are counted.
    for (std::size_t k = 0; k < (count == 2 ? 2 : 1); ++k) {
      if (k > 0) name += '+';
      name += count > 2 ? fmt::format("{}x{}g", count, sizes[i]) : fmt::format("{}g", sizes[i]);
    }
    i += count;
  }
  return name;
}

Result<hw::Layout> find_layout(const hw::GpuModel& model, const std::vector<int>& sizes) {
  std::vector<std::string> possible;
  std::optional<hw::Layout> part;
  for (const hw::Layout& layout : all_layouts(model)) {
    const std::vector<int> own = sizes_of(model, layout);
    if (own == sizes) return layout;
    if (!part) part = part_with(model, layout, sizes);
    const std::string name = layout_name(own);
    if (std::ranges::count(possible, name) == 0) possible.push_back(name);
  }
  if (part) return *part;
  std::string list;
  for (const std::string& name : possible) list += (list.empty() ? "" : ", ") + name;
  return bad_input(model.name, fmt::format("no layout {}; possible are these and parts of them: {}",
                                           layout_name(sizes), list));
}

Outcome fixed(const plan::BatchProblem& problem, const Options& options) {
  const Result<std::vector<int>> sizes = parse_layout(options.argument);
  if (!sizes) return refused("argument", "scheduler fixed", sizes.error().message);
  Opened opened = open_problem(problem);
  if (!opened.forest) return std::move(opened.refusal);
  std::vector<hw::Layout> layouts(problem.models.size());
  for (const int model : problem.gpus) {
    if (!layouts[at(model)].empty()) continue;
    Result<hw::Layout> layout = find_layout(problem.models[at(model)], *sizes);
    if (!layout) {
      return refused("layout", "GPU model " + layout.error().context, layout.error().message);
    }
    layouts[at(model)] = std::move(*layout);
  }
  const Setting setting = setting_of(problem, *opened.forest);
  return finish(setting, layouts, try_layouts(setting, layouts));
}

Outcome fixed_best(const plan::BatchProblem& problem, const Options&) {
  Opened opened = open_problem(problem);
  if (!opened.forest) return std::move(opened.refusal);
  const Setting setting = setting_of(problem, *opened.forest);
  const std::set<int> used(problem.gpus.begin(), problem.gpus.end());
  std::vector<std::vector<hw::Layout>> choices(problem.models.size());
  std::vector<hw::Layout> best(problem.models.size());
  for (const int m : used) {
    choices[at(m)] = all_layouts(problem.models[at(m)]);
    best[at(m)] = choices[at(m)].front();
  }
  Tried least = try_layouts(setting, best);
  for (bool improved = true; improved;) {
    improved = false;
    for (const int m : used) {
      std::vector<hw::Layout> layouts = best;
      for (const hw::Layout& choice : choices[at(m)]) {
        layouts[at(m)] = choice;
        Tried tried = try_layouts(setting, layouts);
        if (tried.order() >= least.order()) continue;
        least = std::move(tried);
        best = layouts;
        improved = used.size() > 1;
      }
    }
  }
  return finish(setting, best, least);
}

}  // namespace partita::planners::batch
