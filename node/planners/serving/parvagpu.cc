#include "planners/serving/parvagpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "base/index.h"
#include "hw/layout.h"
#include "planners/serving/finish.h"
#include "planners/serving/points.h"
#include "planners/serving/pooled.h"
#include "planners/serving/survive.h"

namespace partita::planners::serving {
namespace {

// Allocation Optimization: the largest size of a small segment, and what share of a GPU's GPCs
// counts as fragmented.
constexpr int kSmallGpcs = 2;
constexpr int kThresholdGpcs = 4, kThresholdOfGpcs = 7;
// Rates within this share of each other are equal: sums of throughputs are rounded.
constexpr double kRounding = 1e-12;

struct Variant {
  const char* name;
  int max_processes;
  bool optimize;
};

// A service on a size; `column` counts the sizes in use from the smallest.
struct Segment {
  int service = 0;
  int column = 0;
};

struct PlacedSegment {
  Segment segment;
  int start = 0;
};

// A MIG profile with the starts that strand no compute slice.
struct Shape {
  int gpcs = 0;
  std::uint32_t span = 0;  // memory slices from slice 0 on
  std::vector<int> starts;
};

std::vector<Shape> shapes_of(const hw::GpuModel& gpu, const std::vector<int>& profiles) {
  std::vector<Shape> shapes;
  if (profiles.empty()) return shapes;
  const std::vector<int>& unit = gpu.profiles[static_cast<std::size_t>(profiles[0])].starts;
  for (const int p : profiles) {
    const hw::MigProfile& profile = gpu.profiles[static_cast<std::size_t>(p)];
    Shape shape{profile.gpcs, (1u << profile.size) - 1, {}};
    for (const int start : profile.starts) {
      const auto units = std::ranges::count_if(
          unit, [&](int u) { return u >= start && u < start + profile.size; });
      if (units <= profile.gpcs) shape.starts.push_back(start);
    }
    if (shape.starts.empty()) shape.starts = profile.starts;
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// The GPUs with their segments, and the queues of segments to be placed (Algorithm 2).
class DeploymentMap {
 public:
  explicit DeploymentMap(std::vector<Shape> shapes, int gpcs_per_gpu)
      : shapes_(std::move(shapes)),
        gpcs_per_gpu_(gpcs_per_gpu),
        queues_(shapes_.size()),
        first_open_(shapes_.size()) {}

  std::size_t gpus() const { return gpus_.size(); }
  int gpcs(std::size_t gpu) const { return gpus_[gpu].gpcs; }
  const std::vector<PlacedSegment>& placed(std::size_t gpu) const { return gpus_[gpu].placed; }

  void enqueue(Segment segment) {
    queues_[static_cast<std::size_t>(segment.column)].push_back(segment);
  }

  // ALLOCATION: empties the queues, larger sizes first, each segment onto the first GPU with room.
  void allocate() {
    for (std::size_t column = queues_.size(); column-- > 0;) {
      for (const Segment& segment : queues_[column]) place(segment);
      queues_[column].clear();
    }
  }

  // Takes all segments off a GPU.
  std::vector<PlacedSegment> release(std::size_t gpu) {
    for (std::size_t& open : first_open_) open = std::min(open, gpu);
    return std::exchange(gpus_[gpu], Gpu{}).placed;
  }

 private:
  struct Gpu {
    std::vector<PlacedSegment> placed;
    std::uint32_t taken = 0;  // memory slices
    int gpcs = 0;
  };

  bool put(Gpu& gpu, const Segment& segment) const {
    const Shape& shape = shapes_[static_cast<std::size_t>(segment.column)];
    if (gpu.gpcs + shape.gpcs > gpcs_per_gpu_) return false;
    for (const int start : shape.starts) {
      const std::uint32_t span = shape.span << start;
      if (gpu.taken & span) continue;
      gpu.taken |= span;
      gpu.gpcs += shape.gpcs;
      gpu.placed.push_back({segment, start});
      return true;
    }
    return false;
  }

  // A GPU without room for a size stays so until it is released, hence the remembered first GPU.
  void place(const Segment& segment) {
    std::size_t& gpu = first_open_[static_cast<std::size_t>(segment.column)];
    while (gpu < gpus_.size() && !put(gpus_[gpu], segment)) ++gpu;
    if (gpu < gpus_.size()) return;
    gpus_.emplace_back();
    put(gpus_.back(), segment);
  }

  std::vector<Shape> shapes_;
  int gpcs_per_gpu_;
  std::vector<std::vector<Segment>> queues_;  // per column
  std::vector<std::size_t> first_open_;       // per column
  std::vector<Gpu> gpus_;
};

// What one call works on. The problem is restricted to what ParvaGPU uses.
class ParvaPlanner {
 public:
  explicit ParvaPlanner(const plan::ServingProblem& problem)
      : problem_(problem), gpu_(problem.fleet.front().gpu) {}

  // Without optimize: as far as the Segment Allocator.
  Outcome run(bool optimize, PointTable table);

 private:
  int columns() const { return static_cast<int>(table_.profiles.size()); }
  const hw::MigProfile& profile(int column) const {
    const int index = table_.profiles[static_cast<std::size_t>(column)];
    return gpu_.profiles[static_cast<std::size_t>(index)];
  }
  int gpcs(int column) const { return profile(column).gpcs; }
  const std::optional<BestPoint>& point(int service, int column) const {
    return table_.best[static_cast<std::size_t>(service)][static_cast<std::size_t>(column)];
  }
  double throughput(const Segment& s) const { return point(s.service, s.column)->throughput.value; }
  // What its instances must carry together.
  double demand(std::size_t s) const {
    return table_.demand.empty() ? plan::planning_rate(problem_.services[s]).value
                                 : table_.demand[s];
  }
  const plan::Service& service(int s) const {
    return problem_.services[static_cast<std::size_t>(s)];
  }

  int best_column(int service, int max_gpcs) const;
  int smallest_column(int service, double rate, int max_gpcs) const;
  bool match_demand(DeploymentMap& map);
  void dissolve(DeploymentMap& map) const;
  void split(DeploymentMap& map, const Segment& segment, double& freed) const;
  void top_up(DeploymentMap& map) const;
  plan::ServingPlan to_plan(const DeploymentMap& map) const;
  void check_apart(const DeploymentMap& map);
  void check_fleet(const plan::ServingPlan& plan);

  const plan::ServingProblem& problem_;
  const hw::GpuModel& gpu_;
  PointTable table_;
  std::vector<plan::Reason> refusals_;
};

// The feasible size of most throughput per GPC, or -1.
int ParvaPlanner::best_column(int s, int max_gpcs) const {
  int best = -1;
  double best_ratio = 0;
  for (int column = 0; column < columns() && gpcs(column) <= max_gpcs; ++column) {
    if (!point(s, column)) continue;
    const double ratio = point(s, column)->throughput.value / gpcs(column);
    if (ratio <= best_ratio) continue;
    best = column;
    best_ratio = ratio;
  }
  return best;
}

// The smallest feasible size that carries the rate, or -1.
int ParvaPlanner::smallest_column(int s, double rate, int max_gpcs) const {
  for (int column = 0; column < columns() && gpcs(column) <= max_gpcs; ++column)
    if (point(s, column) && point(s, column)->throughput.value >= rate) return column;
  return -1;
}

// DEMANDMATCHING: queues the segments of every service. False when there would be too many.
bool ParvaPlanner::match_demand(DeploymentMap& map) {
  double segments = 0;
  for (int s = 0; s < static_cast<int>(problem_.services.size()); ++s) {
    const Segment best{s, best_column(s, hw::kMaxSlices)};
    const double rate = demand(at(s));
    const double count = std::floor(rate / throughput(best));
    segments += std::max(count + 1, static_cast<double>(service(s).min_replicas));
    if (!(segments <= kMaxSegments)) {
      refusals_.push_back({"limit", "service " + service(s).name, kMaxSegments, segments,
                           "the services up to this one need more segments than are planned for"});
      return false;
    }
    for (int k = 0; k < static_cast<int>(count); ++k) map.enqueue(best);
    const double left = std::min(rate - count * throughput(best), throughput(best));
    if (left > kRounding * rate) map.enqueue({s, smallest_column(s, left, hw::kMaxSlices)});
  }
  return true;
}

// SMALLSEGMENTS: queues segments of sizes 1 and 2 for the freed rate.
void ParvaPlanner::split(DeploymentMap& map, const Segment& segment, double& freed) const {
  const Segment best{segment.service, best_column(segment.service, kSmallGpcs)};
  if (best.column < 0) {
    map.enqueue(segment);
    return;
  }
  const Segment smallest{segment.service, smallest_column(segment.service, 0, kSmallGpcs)};
  freed += throughput(segment);
  while (freed > kRounding * throughput(segment)) {
    const Segment next = throughput(best) <= freed * (1 + kRounding) ? best : smallest;
    map.enqueue(next);
    freed -= throughput(next);
  }
}

// ALLOCATIONOPTIMIZATION.
void ParvaPlanner::dissolve(DeploymentMap& map) const {
  const int threshold = gpu_.compute_slices * kThresholdGpcs / kThresholdOfGpcs;
  std::vector<double> freed(problem_.services.size());  // negative: surplus
  for (std::size_t gpu = map.gpus(); gpu-- > 0;) {
    if (map.gpcs(gpu) > threshold) continue;
    for (const PlacedSegment& placed : map.release(gpu))
      split(map, placed.segment, freed[static_cast<std::size_t>(placed.segment.service)]);
    map.allocate();
  }
}

// Adds smallest segments to services with fewer than min_replicas, or, after splitting, a rounded
// sum below the rate.
void ParvaPlanner::top_up(DeploymentMap& map) const {
  std::vector<int> replicas(problem_.services.size());
  std::vector<double> planned(problem_.services.size());
  for (std::size_t gpu = 0; gpu < map.gpus(); ++gpu)
    for (const PlacedSegment& placed : map.placed(gpu)) {
      ++replicas[static_cast<std::size_t>(placed.segment.service)];
      planned[static_cast<std::size_t>(placed.segment.service)] += throughput(placed.segment);
    }
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    const plan::Service& wanted = problem_.services[s];
    const Segment smallest{static_cast<int>(s),
                           smallest_column(static_cast<int>(s), 0, hw::kMaxSlices)};
    while (replicas[s] < wanted.min_replicas || planned[s] < demand(s) * (1 - kRounding)) {
      map.enqueue(smallest);
      ++replicas[s];
      planned[s] += throughput(smallest);
    }
  }
  map.allocate();
}

// The GPUs in use and what they add up to; the rest of a plan is complete()'s.
plan::ServingPlan ParvaPlanner::to_plan(const DeploymentMap& map) const {
  plan::ServingPlan plan;
  for (std::size_t g = 0; g < map.gpus(); ++g) {
    if (map.placed(g).empty()) continue;
    plan::PlannedGpu gpu{static_cast<int>(plan.gpus.size()), gpu_.name, {}};
    for (const auto& [segment, start] : map.placed(g)) {
      const BestPoint& best = *point(segment.service, segment.column);
      gpu.instances.push_back({profile(segment.column).name, start, service(segment.service).name,
                               best.batch, best.processes, best.throughput, best.latency});
    }
    std::ranges::sort(gpu.instances, {}, &plan::PlannedInstance::start);
    plan.objective.gpcs += map.gpcs(g);
    plan.gpus.push_back(std::move(gpu));
  }
  plan.objective.gpus = static_cast<int>(plan.gpus.size());
  plan.objective.cost = plan.objective.gpus * problem_.fleet.front().price;
  return plan;
}

// What the algorithm knows nothing of: anti_affinity and the size of the fleet.
void ParvaPlanner::check_apart(const DeploymentMap& map) {
  constexpr const char* kWhy = "ParvaGPU places segments without regard to anti_affinity";
  const auto apart = [](const plan::Service& s) { return s.spread || !s.avoid.empty(); };
  if (std::ranges::none_of(problem_.services, apart)) return;
  int index = 0;  // in the plan, which leaves out empty GPUs
  for (std::size_t g = 0; g < map.gpus(); ++g) {
    std::map<std::string, std::pair<int, int>> here;  // name -> service, instances
    for (const PlacedSegment& placed : map.placed(g)) {
      auto& [id, instances] = here[service(placed.segment.service).name];
      id = placed.segment.service;
      ++instances;
    }
    for (const auto& [name, found] : here) {
      const auto& [id, instances] = found;
      if (service(id).spread && instances > 1)
        refusals_.push_back({plan::kNotFound, fmt::format("service {} on gpu {}", name, index),
                             1.0 * instances, 1, kWhy});
      for (const std::string& other : service(id).avoid)
        if (here.contains(other))
          refusals_.push_back({plan::kNotFound,
                               fmt::format("services {} and {} on gpu {}", name, other, index), 1,
                               0, kWhy});
    }
    index += !here.empty();
  }
}

void ParvaPlanner::check_fleet(const plan::ServingPlan& plan) {
  const plan::FleetEntry& entry = problem_.fleet.front();
  if (entry.count && plan.objective.gpus > *entry.count)
    refusals_.push_back({plan::kNotFound, "fleet " + gpu_.name, 1.0 * *entry.count,
                         1.0 * plan.objective.gpus, "ParvaGPU needs more GPUs than there are"});
}

Outcome ParvaPlanner::run(bool optimize, PointTable table) {
  table_ = std::move(table);
  refusals_ = unservable(problem_, {PointTables{table_}});
  if (!refusals_.empty()) return {std::nullopt, refusals_};

  DeploymentMap map(shapes_of(gpu_, table_.profiles), gpu_.compute_slices);
  if (!match_demand(map)) return {std::nullopt, refusals_};
  map.allocate();
  if (optimize) dissolve(map);
  top_up(map);
  check_apart(map);
  plan::ServingPlan plan = to_plan(map);
  check_fleet(plan);
  if (!refusals_.empty()) return {std::nullopt, refusals_};
  return {std::move(plan), {}};
}

Outcome plan_variant(const plan::ServingProblem& problem, const Variant& variant,
                     const Options& options) {
  if (problem.fleet.empty())
    return {std::nullopt, {{"fleet_count", "fleet", 0, 1, "there is no GPU model to plan for"}}};
  if (auto reasons = cannot_survive(problem, variant.name); !reasons.empty())
    return {std::nullopt, std::move(reasons)};
  plan::ServingProblem used{
      .services = problem.services,
      .fleet = {problem.fleet.front()},
      .rule = problem.rule,
      .max_processes = std::min(problem.max_processes, variant.max_processes)};
  std::erase_if(used.fleet.front().gpu.profiles, [](const auto& p) { return !p.plain(); });
  Stopwatch watch(options);
  const auto solve = [&](const plan::ServingProblem&, const std::vector<PointTables>& modes) {
    return ParvaPlanner(used).run(variant.optimize, modes.front().front());
  };
  if (used.rule.kind == plan::SloRule::Kind::pooled)
    return complete(plan_pools_in_one_mode(used, options, solve), used, variant.name, watch);
  const PointTable table = best_points(used, used.fleet.front());
  watch.points_done(used.rule);
  return complete(solve(used, {{table}}), used, variant.name, watch);
}

}  // namespace

Outcome plan_parvagpu(const plan::ServingProblem& problem, const Options& options) {
  return plan_variant(problem, {"parvagpu", profile::kMaxProcesses, true}, options);
}

Outcome plan_parvagpu_single(const plan::ServingProblem& problem, const Options& options) {
  return plan_variant(problem, {"parvagpu-single", 1, true}, options);
}

Outcome plan_parvagpu_unoptimized(const plan::ServingProblem& problem, const Options& options) {
  return plan_variant(problem, {"parvagpu-unoptimized", profile::kMaxProcesses, false}, options);
}

}  // namespace partita::planners::serving
