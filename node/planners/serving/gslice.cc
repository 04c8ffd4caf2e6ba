#include "planners/serving/gslice.h"

#include <utility>

#include "planners/serving/baseline.h"
#include "planners/serving/shares.h"

namespace partita::planners::serving {
namespace {

const Baseline kGslice{"gslice", 0.5};
constexpr int kGsliceStep = 5, kGsliceFirst = 50;  // percent of a GPU

// A service's share and batch at rest; no point: the whole GPU is too small.
struct Rest {
  int percent = 0;
  const profile::ProfilePoint* point = nullptr;
};

class Controller {
 public:
  Controller(const plan::ServingProblem& problem, Shares& shares)
      : problem_(problem), shares_(shares) {}

  Rest settle(const plan::Service& service) {
    int percent = kGsliceFirst;
    while (percent < 100 && !carrying(service, percent)) percent += kGsliceStep;
    while (percent > kGsliceStep && carrying(service, percent - kGsliceStep))
      percent -= kGsliceStep;
    return {percent, carrying(service, percent)};
  }
  // The largest batch within the limit on a share.
  const profile::ProfilePoint* adapted(const plan::Service& service, int percent) {
    return shares_.largest_batch(service, percent, latency_limit(problem_, service),
                                 [](const auto& point) { return point.latency; });
  }

 private:
  const profile::ProfilePoint* carrying(const plan::Service& service, int percent) {
    const auto* point = adapted(service, percent);
    const double needed = service.rate.value * (1 - kRateRounding);
    return point && point->throughput.value >= needed ? point : nullptr;
  }

  const plan::ServingProblem& problem_;
  Shares& shares_;
};

std::size_t first_with_room(const SharedGpus& gpus, const Rest& rest) {
  std::size_t gpu = 0;
  while (gpu < gpus.size() &&
         (gpus.percent(gpu) + rest.percent > 100 || !gpus.has_memory(gpu, *rest.point)))
    ++gpu;
  return gpu;
}

}  // namespace

Outcome plan_gslice(const plan::ServingProblem& problem, const Options& options) {
  if (auto refusals = cannot_plan(kGslice, problem); !refusals.empty())
    return {std::nullopt, std::move(refusals)};
  Stopwatch watch(options);
  const plan::ServingProblem used = as_baseline(problem);
  std::vector<plan::Reason> refusals = unservable_shares(used);
  if (!refusals.empty()) return {std::nullopt, std::move(refusals)};
  Shares shares(used);
  Controller controller(used, shares);
  SharedGpus gpus(shares.whole());
  for (const plan::Service& service : used.services) {
    const Rest rest = controller.settle(service);
    if (rest.point) {
      gpus.put(first_with_room(gpus, rest), service, rest.percent, *rest.point);
      if (gpus.size() > kMaxBaselineGpus) return too_many_gpus_for("GSLICE");
    } else {
      const double most = controller.adapted(service, 100)->throughput.value;
      refusals.push_back(beyond_one_gpu(service, most, "GSLICE"));
    }
  }
  if (!refusals.empty()) return {std::nullopt, std::move(refusals)};
  return finish_baseline(std::move(gpus).take(), used, kGslice, watch);
}

}  // namespace partita::planners::serving
