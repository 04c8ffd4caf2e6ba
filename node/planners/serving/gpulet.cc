#include "planners/serving/gpulet.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "planners/serving/baseline.h"
#include "planners/serving/shares.h"

namespace partita::planners::serving {
namespace {

const Baseline kGpulet{"gpulet", 0.5};
constexpr std::array kSizes = {20, 40, 50, 60, 80, 100};  // percent
constexpr int kReferenceBatch = 16;

// Utilisation in percent at half a GPU, and the coefficients of a second of interference per
// percent: data/published/gpulet (gpulet_test recomputes the means).
struct Utilisation {
  int batch = 0;
  double memory = 0, l2 = 0;
};
constexpr std::array kHalfGpu = {Utilisation{1, 7.066, 7.131},    Utilisation{2, 6.634, 7.879},
                                 Utilisation{4, 8.269, 9.79},     Utilisation{8, 11.113, 12.045},
                                 Utilisation{16, 14.493, 14.439}, Utilisation{32, 18.461, 15.834},
                                 Utilisation{64, 21.854, 16.903}};
constexpr double kOwnL2 = 0.000291343, kOwnMemory = 0.000364121;
constexpr double kOtherL2 = 0.000101413, kOtherMemory = 8.24321e-05;
constexpr double kAlways = 0.00309856;

Utilisation utilisation(const Gpulet& let) {
  auto row = std::ranges::upper_bound(kHalfGpu, let.batch, {}, &Utilisation::batch);
  if (row != kHalfGpu.begin()) --row;
  return {let.batch, row->memory * let.percent / 50, row->l2 * let.percent / 50};
}

class GpuletPlanner {
 public:
  explicit GpuletPlanner(const plan::ServingProblem& problem)
      : problem_(problem), shares_(problem), gpus_(shares_.whole()) {}

  // False: more GPUs than the limit.
  bool place(const plan::Service& service);
  std::vector<plan::PlannedGpu> take() && { return std::move(gpus_).take(); }

 private:
  struct Choice {
    std::size_t gpu = 0;
    double percent = 0;
    const profile::ProfilePoint* point = nullptr;
  };

  double reference_rate(const plan::Service& service, int percent);
  int ideal_size(const plan::Service& service, double rate);
  Choice choose(const plan::Service& service, int ideal);
  const profile::ProfilePoint* alone(const plan::Service& service, int percent) {
    return shares_.largest_batch(service, percent, latency_limit(problem_, service),
                                 [](const auto& point) { return point.latency; });
  }

  const plan::ServingProblem& problem_;
  Shares shares_;
  SharedGpus gpus_;
  std::set<std::pair<double, std::size_t>> halves_;  // free second ones: percent, GPU
};

double GpuletPlanner::reference_rate(const plan::Service& service, int percent) {
  const auto& whole = shares_.points(service, 100);
  int batch = whole.empty() ? 0 : whole.front().batch;
  for (const profile::ProfilePoint& point : whole)
    if (point.batch <= kReferenceBatch) batch = point.batch;
  const profile::ProfilePoint* point = shares_.point(service, percent, batch);
  return point ? point->throughput.value : 0;
}

// The smaller of the most efficient size and the smallest that carries the rate, among those where
// some batch meets the limit.
int GpuletPlanner::ideal_size(const plan::Service& service, double rate) {
  int efficient = 100;
  int enough = 100;
  double steepest = 0;
  double before = 0;
  int from = 0;
  for (const int percent : kSizes) {
    const double reached = reference_rate(service, percent);
    const double slope = (reached - before) / (percent - from);
    before = reached;
    from = percent;
    if (!alone(service, percent)) continue;
    if (slope > steepest) {
      steepest = slope;
      efficient = percent;
    }
    if (reached >= rate) enough = std::min(enough, percent);
  }
  return std::min(efficient, enough);
}

GpuletPlanner::Choice GpuletPlanner::choose(const plan::Service& service, int ideal) {
  for (auto half = halves_.lower_bound({ideal, 0}); half != halves_.end(); ++half) {
    const auto [percent, gpu] = *half;
    const plan::PlannedInstance& first = gpus_.on(gpu).front();
    const auto beside = [&](const profile::ProfilePoint& point) {
      return point.latency +
             gpulet_interference({point.batch, 1.0 * ideal}, {first.batch, first.share_percent});
    };
    const auto* point =
        shares_.largest_batch(service, percent, latency_limit(problem_, service), beside);
    if (point && gpus_.has_memory(gpu, *point)) return {gpu, percent, point};
  }
  return {gpus_.size(), 1.0 * ideal, alone(service, ideal)};
}

bool GpuletPlanner::place(const plan::Service& service) {
  double rate = service.rate.value;
  while (rate > kRateRounding * service.rate.value) {
    const Choice chosen = choose(service, ideal_size(service, rate));
    if (chosen.gpu == gpus_.size()) {
      if (gpus_.size() == kMaxBaselineGpus) return false;
      if (chosen.percent < 100) halves_.emplace(100 - chosen.percent, chosen.gpu);
    } else {
      halves_.erase({chosen.percent, chosen.gpu});
    }
    gpus_.put(chosen.gpu, service, chosen.percent, *chosen.point);
    rate -= chosen.point->throughput.value;
  }
  return true;
}

}  // namespace

Millis gpulet_interference(const Gpulet& mine, const Gpulet& other) {
  const Utilisation own = utilisation(mine);
  const Utilisation its = utilisation(other);
  const double seconds = kOwnL2 * own.l2 + kOwnMemory * own.memory + kOtherL2 * its.l2 +
                         kOtherMemory * its.memory + kAlways;
  return Millis{1000 * seconds};
}

Outcome plan_gpulet(const plan::ServingProblem& problem, const Options& options) {
  if (auto refusals = cannot_plan(kGpulet, problem); !refusals.empty())
    return {std::nullopt, std::move(refusals)};
  Stopwatch watch(options);
  const plan::ServingProblem used = as_baseline(problem);
  if (auto refusals = unservable_shares(used); !refusals.empty())
    return {std::nullopt, std::move(refusals)};
  std::vector<std::size_t> order(used.services.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t s) {
    return used.services[s].rate.value * used.services[s].slo.value;
  });
  GpuletPlanner planner(used);
  for (const std::size_t s : order)
    if (!planner.place(used.services[s])) return too_many_gpus_for("gpulet");
  return finish_baseline(std::move(planner).take(), used, kGpulet, watch);
}

}  // namespace partita::planners::serving
