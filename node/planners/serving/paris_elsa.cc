#include "planners/serving/paris_elsa.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "hw/layout.h"
#include "planners/serving/baseline.h"

namespace partita::planners::serving {
namespace {

const Baseline kParisElsa{"paris-elsa", 1};
constexpr double kKnee = 0.8;
constexpr double kSigma = 0.9, kMedian = 8;

// A size with the queries that are for it.
struct Size {
  int profile = 0;             // index into the GPU's profiles
  profile::ProfilePoint knee;  // what its instances run
  profile::BatchCurve curve;   // up to the knee
  double instances = 0;        // busy ones, a fraction
};

// The points of a model on a size within the limit, ascending batch.
std::vector<profile::ProfilePoint> points_on(const profile::WorkloadProfile& workload,
                                             const hw::MigProfile& shape, Millis limit) {
  std::vector<profile::ProfilePoint> points;
  for (const profile::ProfilePoint& point : workload.points)
    if (point.gpcs == shape.gpcs && point.processes == 1 && point.latency < limit &&
        !(point.memory && shape.memory && *point.memory > *shape.memory))
      points.push_back(point);
  return points;
}

const profile::ProfilePoint& knee_of(const std::vector<profile::ProfilePoint>& points) {
  double best = 0;
  for (const auto& point : points) best = std::max(best, point.throughput.value);
  return *std::ranges::find_if(
      points, [&](const auto& point) { return point.throughput.value >= kKnee * best; });
}

// The sizes that a service can use, ascending, each with a larger knee than the one before; the
// last one's is its largest batch.
std::vector<Size> sizes_of(const plan::FleetEntry& entry, const plan::Service& service,
                           Millis limit) {
  const auto& workload = entry.profiles.at(service.model);
  std::vector<Size> sizes;
  for (const int p : hw::plain_profiles(entry.gpu)) {
    const hw::MigProfile& shape = entry.gpu.profiles[static_cast<std::size_t>(p)];
    const auto points = points_on(workload, shape, limit);
    if (points.empty()) continue;
    const profile::ProfilePoint& knee = knee_of(points);
    if (!sizes.empty() && knee.batch <= sizes.back().knee.batch) continue;
    sizes.push_back({p, knee, profile::batch_curve(workload, shape.gpcs, 1, knee.batch), 0});
  }
  return sizes;
}

// How many instances of each size the service's queries keep busy.
void share_out(std::vector<Size>& sizes, Rps rate) {
  const int largest = sizes.back().knee.batch;
  const std::vector<double> queries = paris_queries(largest);
  double mean = 0;  // requests per query
  for (int b = 1; b <= largest; ++b) mean += b * queries[static_cast<std::size_t>(b - 1)];
  const double per_second = rate.value / mean;
  auto size = sizes.begin();
  for (int b = 1; b <= largest; ++b) {
    if (b > size->knee.batch) ++size;
    size->instances +=
        per_second * queries[static_cast<std::size_t>(b - 1)] * size->curve.latency(b).value / 1000;
  }
}

}  // namespace

std::vector<double> paris_queries(int largest) {
  std::vector<double> share;
  for (int b = 1; b <= largest; ++b) {
    const double z = std::log(b / kMedian) / kSigma;
    share.push_back(std::exp(-z * z / 2) / b);
  }
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& one : share) one /= sum;
  return share;
}

Outcome plan_paris_elsa(const plan::ServingProblem& problem, const Options& options) {
  if (auto refusals = cannot_plan(kParisElsa, problem); !refusals.empty())
    return {std::nullopt, std::move(refusals)};
  Stopwatch watch(options);
  const plan::ServingProblem used = as_baseline(problem);
  const plan::FleetEntry& entry = used.fleet.front();
  FirstFit gpus(entry.gpu);
  for (const plan::Service& service : used.services) {
    std::vector<Size> sizes = sizes_of(entry, service, latency_limit(used, service));
    share_out(sizes, service.rate);
    double planned = 0;
    const auto add = [&](const Size& size) {
      plan::PlannedInstance one;
      one.service = service.name;
      one.batch = size.knee.batch;
      one.processes = 1;
      one.throughput = size.knee.throughput;
      one.latency = size.knee.latency;
      gpus.put(size.profile, std::move(one));
      planned += size.knee.throughput.value;
    };
    for (std::size_t k = sizes.size(); k-- > 0;)
      for (double left = sizes[k].instances;
           left > kRateRounding && gpus.gpus() <= kMaxBaselineGpus; --left)
        add(sizes[k]);
    while (planned < service.rate.value * (1 - kRateRounding) && gpus.gpus() <= kMaxBaselineGpus)
      add(sizes.back());
    if (gpus.gpus() > kMaxBaselineGpus) return too_many_gpus_for("PARIS");
  }
  return finish_baseline(std::move(gpus).take(), used, kParisElsa, watch);
}

}  // namespace partita::planners::serving
