#include "planners/serving/pool_oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace partita::planners::serving {
namespace {

constexpr std::uint64_t kSeed = 0x9001;
// Where the closed form is known to be good: processes, and SLO over the longest batch; and how far
// it may be off.
constexpr int kManyProcesses = 4;
constexpr double kRoomySlo = 1.6;
constexpr double kClosedFormError = 0.03;
// Loads below the planned one at which a tight pool must hold too.
constexpr double kLoadsBelow[] = {0.9, 0.75, 0.6, 0.45, 0.3};

struct Shape {
  int processes = 0;
  double longest = 0;  // ms
  double batch = 0;    // largest
};

Shape shape_of(const model::Pool& pool) {
  Shape shape;
  for (const model::PoolClass& one : pool) {
    shape.processes += one.processes;
    shape.longest = std::max(shape.longest, one.curve.steps.back().latency.value);
    shape.batch = std::max(shape.batch, 1.0 * one.curve.max_batch());
  }
  return shape;
}

bool roomy(const Shape& shape, const model::PoolSlo& wanted) {
  return shape.processes >= kManyProcesses && wanted.slo.value >= kRoomySlo * shape.longest;
}

// A queue near saturation forgets slowly: in (1 - rho)^-2 batches.
model::PoolTest test_of(const model::Pool& pool, Rps rate) {
  const double idle = std::max(1e-3, 1 - rate / model::fluid(pool));
  const double memory = shape_of(pool).batch / (idle * idle);
  model::PoolTest test{.seed = kSeed};
  test.fewest = static_cast<long>(std::clamp(4 * memory, 6e3, 1e5));
  test.most = static_cast<long>(std::clamp(80 * memory, 1e5, 8e5));
  return test;
}

}  // namespace

model::PoolSlo planned_slo(const plan::Service& service) {
  return {service.slo, kSpentLate * (1 - service.percentile / 100)};
}

int PoolOracle::question(const plan::Service& service) {
  return questions_
      .emplace(std::tuple(service.model, service.rate.value, service.slo.value, service.percentile),
               static_cast<int>(questions_.size()))
      .first->second;
}

model::Pool PoolOracle::pool_of(const plan::Service& service, const PoolParts& parts) const {
  model::Pool pool;
  for (const PoolPart& part : parts) {
    const auto& profile = problem_.fleet[part.entry].profiles.at(service.model);
    pool.push_back({profile::batch_curve(profile, part.gpcs, part.processes, part.batch),
                    part.processes * part.instances});
  }
  return pool;
}

bool PoolOracle::carries(const plan::Service& service, const PoolParts& parts) {
  const auto [known, fresh] = carried_.emplace(Key{question(service), parts}, false);
  if (!fresh) return known->second;
  const model::Pool pool = pool_of(service, parts);
  const model::PoolSlo wanted = planned_slo(service);
  if (roomy(shape_of(pool), wanted)) {
    const Rps closed = model::closed_form_capacity(pool, wanted);
    if (service.rate <= closed * (1 - kClosedFormError)) return known->second = true;
    if (service.rate >= closed * (1 + kClosedFormError)) return known->second = false;
  }
  return known->second = model::holds(pool, wanted, service.rate, test_of(pool, service.rate));
}

PoolOracle::Answer PoolOracle::check(const plan::Service& service, const PoolParts& parts) {
  const auto [known, fresh] = checked_.emplace(Key{question(service), parts}, Answer{});
  if (!fresh) return known->second;
  Answer& answer = known->second;
  const model::Pool pool = pool_of(service, parts);
  const model::PoolSlo wanted = planned_slo(service);
  const Shape shape = shape_of(pool);
  const model::PoolTest test = test_of(pool, service.rate);
  const model::PoolVerdict verdict =
      model::examine(pool, wanted, service.rate, test, service.percentile);
  answer = {verdict.holds, verdict.percentile, service.rate};
  if (roomy(shape, wanted)) {
    const Rps closed = model::closed_form_capacity(pool, wanted) * (1 - kClosedFormError);
    answer.capacity = std::max(answer.capacity, closed);
  } else {
    for (const double load : kLoadsBelow)
      answer.holds = answer.holds && model::holds(pool, wanted, service.rate * load,
                                                  test_of(pool, service.rate * load));
  }
  return answer;
}

}  // namespace partita::planners::serving
