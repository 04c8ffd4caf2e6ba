#include "planners/serving/igniter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "planners/serving/baseline.h"
#include "planners/serving/shares.h"

namespace partita::planners::serving {
namespace {

const Baseline kIgniter{"igniter", 0.5};
constexpr double kIgniterStep = 2.5;  // percent of a GPU

// data/published/igniter: the mean slowdown beside a copy of oneself on the other half of the GPU,
// per percent of the others' shares; per kernel and workload on the GPU, ms; kernels per batch.
constexpr double kSlowdownPerPercent = 0.00077012;
constexpr double kDelayPerWorkload = 0.00475070, kDelayAlways = -0.00902234;
constexpr double kKernels = 55.5;

// A service with a batch and its share of a GPU, as they change.
struct ShareTenant {
  const plan::Service* service = nullptr;
  int batch = 0;
  double percent = 0;
};

class IgniterPlanner {
 public:
  explicit IgniterPlanner(const plan::ServingProblem& problem)
      : problem_(problem), shares_(problem) {}

  // Absent: more than a whole GPU.
  std::optional<ShareTenant> least(const plan::Service& service);
  double most(const plan::Service& service);
  // False: more GPUs than the limit.
  bool place(const ShareTenant& tenant);
  std::vector<plan::PlannedGpu> take();

 private:
  bool keeps(const ShareTenant& tenant, int others, double others_percent);
  std::optional<ShareTenant> least_for(const plan::Service& service, int batch);
  std::optional<std::vector<ShareTenant>> together(std::vector<ShareTenant> tenants);
  bool has_memory(const std::vector<ShareTenant>& tenants);

  const plan::ServingProblem& problem_;
  Shares shares_;
  std::vector<std::vector<ShareTenant>> gpus_;
};

double percent_of(const std::vector<ShareTenant>& tenants) {
  double percent = 0;
  for (const ShareTenant& tenant : tenants) percent += tenant.percent;
  return percent;
}

bool IgniterPlanner::keeps(const ShareTenant& tenant, int others, double others_percent) {
  const auto* point = shares_.point(*tenant.service, tenant.percent, tenant.batch);
  if (!point) return false;
  const Millis beside = igniter_latency(point->latency, others, others_percent);
  const double rate = point->throughput.value * (point->latency / beside);
  return beside < latency_limit(problem_, *tenant.service) &&
         rate >= tenant.service->rate.value * (1 - kRateRounding);
}

std::optional<ShareTenant> IgniterPlanner::least_for(const plan::Service& service, int batch) {
  for (double percent = kIgniterStep; percent <= 100; percent += kIgniterStep)
    if (keeps({&service, batch, percent}, 0, 0)) return ShareTenant{&service, batch, percent};
  return std::nullopt;
}

std::optional<ShareTenant> IgniterPlanner::least(const plan::Service& service) {
  const double arriving =
      std::ceil(latency_limit(problem_, service).value / 1000 * service.rate.value);
  int below = 0;
  int above = 0;
  for (const profile::ProfilePoint& point : shares_.points(service, 100)) {
    if (point.batch < arriving) below = point.batch;
    if (point.batch >= arriving && above == 0) above = point.batch;
  }
  const auto with_above = above > 0 ? least_for(service, above) : std::nullopt;
  const auto with_below = below > 0 ? least_for(service, below) : std::nullopt;
  if (!with_above || (with_below && with_below->percent < with_above->percent)) return with_below;
  return with_above;
}

double IgniterPlanner::most(const plan::Service& service) {
  double most = 0;
  for (const profile::ProfilePoint& point : shares_.points(service, 100))
    if (point.latency < latency_limit(problem_, service))
      most = std::max(most, point.throughput.value);
  return most;
}

// The shares raised until everybody keeps the limit beside the others, if the GPU is large enough.
std::optional<std::vector<ShareTenant>> IgniterPlanner::together(std::vector<ShareTenant> tenants) {
  const int others = static_cast<int>(tenants.size()) - 1;
  bool raised = true;
  while (raised && percent_of(tenants) <= 100) {
    raised = false;
    const double all = percent_of(tenants);
    const std::vector<ShareTenant> before = tenants;
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      if (keeps(before[i], others, all - before[i].percent)) continue;
      tenants[i].percent += kIgniterStep;
      raised = true;
    }
  }
  if (percent_of(tenants) > 100 || !has_memory(tenants)) return std::nullopt;
  return tenants;
}

bool IgniterPlanner::has_memory(const std::vector<ShareTenant>& tenants) {
  double memory = 0;
  for (const ShareTenant& tenant : tenants) {
    const auto* point = shares_.point(*tenant.service, tenant.percent, tenant.batch);
    if (point && point->memory) memory += point->memory->value;
  }
  return !shares_.whole().memory || memory <= shares_.whole().memory->value;
}

bool IgniterPlanner::place(const ShareTenant& tenant) {
  std::optional<std::vector<ShareTenant>> best;
  std::size_t where = gpus_.size();
  double least_more = 0;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    const double used = percent_of(gpus_[g]);
    if (used + tenant.percent > 100) continue;
    std::vector<ShareTenant> tenants = gpus_[g];
    tenants.push_back(tenant);
    auto raised = together(std::move(tenants));
    if (!raised) continue;
    const double more = percent_of(*raised) - used;
    if (best && more >= least_more) continue;
    best = std::move(raised);
    where = g;
    least_more = more;
  }
  if (best) {
    gpus_[where] = std::move(*best);
    return true;
  }
  gpus_.push_back({tenant});
  return gpus_.size() <= kMaxBaselineGpus;
}

std::vector<plan::PlannedGpu> IgniterPlanner::take() {
  SharedGpus planned(shares_.whole());
  for (std::size_t g = 0; g < gpus_.size(); ++g)
    for (const ShareTenant& tenant : gpus_[g])
      planned.put(g, *tenant.service, tenant.percent,
                  *shares_.point(*tenant.service, tenant.percent, tenant.batch));
  return std::move(planned).take();
}

}  // namespace

Millis igniter_latency(Millis alone, int others, double others_percent) {
  if (others == 0) return alone;
  const double delay = kKernels * (kDelayPerWorkload * (others + 1) + kDelayAlways);
  return alone * (1 + kSlowdownPerPercent * others_percent) + Millis{delay};
}

Outcome plan_igniter(const plan::ServingProblem& problem, const Options& options) {
  if (auto refusals = cannot_plan(kIgniter, problem); !refusals.empty())
    return {std::nullopt, std::move(refusals)};
  Stopwatch watch(options);
  const plan::ServingProblem used = as_baseline(problem);
  std::vector<plan::Reason> refusals = unservable_shares(used);
  if (!refusals.empty()) return {std::nullopt, std::move(refusals)};
  IgniterPlanner planner(used);
  std::vector<ShareTenant> tenants;
  for (const plan::Service& service : used.services) {
    if (const auto tenant = planner.least(service))
      tenants.push_back(*tenant);
    else
      refusals.push_back(beyond_one_gpu(service, planner.most(service), "iGniter"));
  }
  if (!refusals.empty()) return {std::nullopt, std::move(refusals)};
  std::ranges::stable_sort(tenants, std::greater<>(), &ShareTenant::percent);
  for (const ShareTenant& tenant : tenants)
    if (!planner.place(tenant)) return too_many_gpus_for("iGniter");
  return finish_baseline(planner.take(), used, kIgniter, watch);
}

}  // namespace partita::planners::serving
