#include "planners/serving/pool_oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <variant>

namespace partita::planners::serving {
namespace {

// Where the closed form is known to be good: processes, and SLO over the longest batch; and how far
// it may be off.
constexpr int kManyProcesses = 4;
constexpr double kClosedFormError = 0.03;
// Below that share of full batches, where only a few fit into the slack, it is far too low.
constexpr double kTrustedShare = 0.85;
constexpr long kFewestWhenSure = 5'000;  // requests, when the closed form says yes
constexpr std::uint64_t kArrivalSeed = 0x9003;
constexpr long kFewestElse = 12'000;
constexpr long kAfterStall = 12'000;
constexpr long kMostQuick = 30'000;
// Late requests that the allowance must be worth before a count of them says anything.
constexpr double kLateWhenIdle = 25;
constexpr double kLateElse = 60;
constexpr double kClusters = 6;  // of late requests, each as long as the queue remembers
// Tight pools are late for an SLO's worth of requests at once; where few may be late, as near
// saturation, no run shows enough of those, and a pool keeps its distance.
constexpr double kRare = 1e-3;
constexpr double kTightLoad = 0.95;
constexpr double kIdleError = 0.25;  // of the idle share that the closed form asks for
// Of the allowance: what is proven to stay below that needs no long run.
constexpr double kProven = 0.5;
// Loads below the planned one at which a tight pool must hold too, and how much of the allowance it
// may spend there. At 45 % and 30 % none of 5,000 pools failed that held at these.
constexpr double kLoadsBelow[] = {0.9, 0.75, 0.6};
constexpr double kSpentBelow = 0.95;
constexpr long kFewestBelow = 3'000;

struct PoolShape {
  double processes = 0;  // as many equal ones: one that does nearly all counts as one
  double longest = 0;    // ms
  double batch = 0;      // largest
};

PoolShape shape_of(const model::Pool& pool) {
  PoolShape shape;
  double sum = 0, squares = 0;
  for (const model::PoolClass& one : pool) {
    const double each = one.curve.max_batch() / one.curve.steps.back().latency.value;
    sum += one.processes * each;
    squares += one.processes * each * each;
    shape.longest = std::max(shape.longest, one.curve.steps.back().latency.value);
    shape.batch = std::max(shape.batch, 1.0 * one.curve.max_batch());
  }
  shape.processes = sum * sum / squares * (1 + 1e-9);
  return shape;
}

bool roomy(const PoolShape& shape, const model::PoolSlo& wanted) {
  return shape.processes >= kManyProcesses && wanted.slo.value >= kRoomySlo * shape.longest;
}

// A queue near saturation forgets slowly: in (1 - rho)^-2 batches.
model::PoolTest test_of(const model::Pool& pool, Rps rate, model::UnitPoisson& units) {
  const double idle = std::max(1e-3, 1 - rate / model::fluid(pool));
  const double memory = shape_of(pool).batch / (idle * idle);
  model::PoolTest test{.units = &units};
  test.fewest = static_cast<long>(std::clamp(2 * memory, 5e3, 4e5));
  test.most = static_cast<long>(std::clamp(80 * memory, 2e5, 2e6));
  return test;
}

// For loads below the planned one, where more may be late.
model::PoolTest short_test_of(const model::Pool& pool, Rps rate, model::UnitPoisson& units) {
  model::PoolTest test = test_of(pool, rate, units);
  test.fewest = std::max(kFewestBelow, test.fewest / 2);
  return test;
}

// Enough to tell which pools are worth a thorough check.
model::PoolTest quick(model::PoolTest test) {
  test.fewest = std::min(test.fewest, kMostQuick);
  test.most = 2 * kMostQuick;
  return test;
}

long worth(double late_ones, const model::PoolSlo& wanted, long fewest) {
  const double requests = std::min(1.0 * kLongestRun, late_ones / wanted.late);
  return std::max(fewest, static_cast<long>(requests));
}

// Late requests come in clusters, as long as the queue takes to work off what it is behind.
long clusters_at(const model::PoolSlo& wanted, double idle) {
  constexpr double kMostToSee = 1e6;
  return static_cast<long>(std::min(kMostToSee, kClusters / (2 * wanted.late * idle * idle)));
}

// For tight pools of which few may be late.
long rushes_at(const model::PoolSlo& wanted, Rps rate) {
  constexpr double kMostToSee = 1e6, kRushes = 4;
  const double rush = rate.value * wanted.slo.value / 1e3;
  return static_cast<long>(std::min(kMostToSee, kRushes * rush / wanted.late));
}

// Far from both ways of working being possible.
bool idle_enough(const model::Pool& pool, const model::PoolSlo& wanted, Rps rate) {
  return rate <= 0.7 * model::fluid(pool) && wanted.slo.value >= 2.5 * shape_of(pool).longest;
}

// Long enough to see bursts of every kind.
model::PoolTest telling(const plan::Service& service, Rps rate, model::PoolTest test) {
  test.fewest = std::max(test.fewest, plan::telling_requests(service.traffic.arrivals, rate));
  test.most = std::max(test.most, 2 * test.fewest);
  return test;
}

// What formulas say: yes, no, or too close to say.
enum class Guess { yes, no, unclear };
Guess guess(const model::Pool& pool, const model::PoolSlo& wanted, Rps rate) {
  const Rps fluid = model::fluid(pool);
  if (rate >= fluid) return Guess::no;
  if (rate > model::kSaturated * fluid &&
      model::saturated_late(pool, wanted.slo, rate) > wanted.late)
    return Guess::no;
  if (model::most_late(pool, wanted.slo, rate) <= kProven * wanted.late) return Guess::yes;
  if (!roomy(shape_of(pool), wanted))
    return wanted.late < kRare && rate > kTightLoad * fluid ? Guess::no : Guess::unclear;
  const Rps closed = model::closed_form_capacity(pool, wanted);
  const double share = closed / fluid;
  const double error = std::min(kClosedFormError, kIdleError * (1 - share));
  if (rate <= closed * (1 - error)) return Guess::yes;
  return share >= kTrustedShare && rate >= closed * (1 + error) ? Guess::no : Guess::unclear;
}

}  // namespace

PoolMemo::Key PoolMemo::key_of(const plan::Service& service, const model::Pool& pool) {
  Key key{plan::planning_rate(service).value, service.slo.value, service.percentile};
  for (const model::PoolClass& one : pool) {
    key.push_back(one.processes);
    key.push_back(static_cast<double>(one.curve.steps.size()));
    for (const profile::BatchCurve::Step& step : one.curve.steps) {
      key.push_back(step.batch);
      key.push_back(step.latency.value);
    }
  }
  return key;
}

model::PoolSlo planned_slo(const plan::Service& service) {
  return {service.slo, kSpentLate * (1 - service.percentile / 100)};
}

int PoolOracle::question(const plan::Service& service) {
  return questions_
      .emplace(std::tuple(service.model, plan::planning_rate(service).value, service.slo.value,
                          service.percentile, law_of(service)),
               static_cast<int>(questions_.size()))
      .first->second;
}

bool PoolOracle::poisson(const plan::Service& service) const {
  return plan::is_poisson(service.traffic.arrivals);
}

// Equal laws have the same number; Poisson has 0.
std::size_t PoolOracle::law_of(const plan::Service& service) {
  const auto found = std::find(laws_.begin(), laws_.end(), service.traffic.arrivals);
  const auto number = static_cast<std::size_t>(found - laws_.begin());
  if (found == laws_.end()) laws_.push_back(service.traffic.arrivals);
  return number;
}

PoolOracle::Drawn& PoolOracle::drawn(const plan::Service& service, Rps rate) {
  if (drawn_.service == &service && drawn_.rate == rate.value) return drawn_;
  const plan::Arrivals& law = service.traffic.arrivals;
  drawn_ = {&service, rate.value, plan::telling_stretches(law, rate, service.slo, most_told_),
            {},       {},         {}};
  if (drawn_.stretches.empty()) {
    drawn_.source = plan::ArrivalSource::of(law, rate, Rng(kArrivalSeed));
    return drawn_;
  }
  drawn_.source = plan::ArrivalSource::of(drawn_.stretches, law, rate, Rng(kArrivalSeed));
  for (plan::Nanos time = drawn_.source.next(); time != plan::kForever; time = drawn_.source.next())
    drawn_.times.push_back(time);
  double end = 0;
  for (const plan::Stretch& one : drawn_.stretches) {
    end += one.length.value * 1e9;
    drawn_.ends.push_back(std::ranges::lower_bound(drawn_.times, static_cast<plan::Nanos>(end)) -
                          drawn_.times.begin());
  }
  drawn_.ends.back() = static_cast<long>(drawn_.times.size());
  return drawn_;
}

model::PoolArrivals PoolOracle::arrivals_of(const plan::Service& service, Rps rate) {
  return [&from = drawn(service, rate), next = std::size_t{0}]() mutable {
    if (next == from.times.size()) from.times.push_back(from.source.next());
    return from.times[next++];
  };
}

// Late ones count as many times as they stand for requests. A batch that holds the end of a stretch
// counts for it.
bool PoolOracle::holds_in_stretches(const Drawn& played, const model::PoolSlo& wanted,
                                    model::PoolRun& run) {
  double all = 0, late = 0;
  long before = 0;
  for (std::size_t i = 0; i < played.ends.size(); before = played.ends[i++])
    all += played.stretches[i].weight * static_cast<double>(played.ends[i] - before);
  const double limit = wanted.late * all;
  long served = 0;
  for (std::size_t i = 0; i < played.ends.size() && late <= limit; ++i) {
    if (played.ends[i] <= served) continue;
    const long asked = played.ends[i] - served;
    const double weight = played.stretches[i].weight;
    const double bearable = weight > 0 ? (limit - late) / weight : static_cast<double>(asked);
    const model::PoolCount count =
        run.run(asked, static_cast<long>(std::min(bearable, static_cast<double>(asked))));
    served += count.requests;
    late += weight * static_cast<double>(count.late);
  }
  return late <= limit;
}

model::PoolVerdict PoolOracle::examine(const plan::Service& service, const model::Pool& pool,
                                       const model::PoolSlo& wanted, Rps rate,
                                       const model::PoolTest& test) {
  if (poisson(service)) return model::examine(pool, wanted, rate, test, service.percentile);
  const Drawn& played = drawn(service, rate);
  if (played.stretches.empty())
    return model::examine(pool, wanted, arrivals_of(service, rate), telling(service, rate, test),
                          service.percentile);
  if (rate >= model::fluid(pool)) return {};
  model::PoolRun run(pool, wanted.slo);
  run.arrivals(arrivals_of(service, rate));
  run.keep_latencies(static_cast<long>(played.times.size()));
  model::PoolVerdict verdict{holds_in_stretches(played, wanted, run)};
  if (verdict.holds) verdict.percentile = run.percentile(service.percentile);
  return verdict;
}

bool PoolOracle::holds_at(const plan::Service& service, const model::Pool& pool,
                          const model::PoolSlo& wanted, Rps rate, const model::PoolTest& test) {
  if (poisson(service)) return model::holds(pool, wanted, rate, test);
  if (rate >= model::fluid(pool)) return false;
  const Drawn& played = drawn(service, rate);
  if (played.stretches.empty())
    return model::holds(pool, wanted, arrivals_of(service, rate), telling(service, rate, test));
  model::PoolRun run(pool, wanted.slo);
  run.arrivals(arrivals_of(service, rate));
  return holds_in_stretches(played, wanted, run);
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
  if (memo_ == nullptr || !poisson(service)) return known->second = find_carries(service, pool);
  const PoolMemo::Key key = PoolMemo::key_of(service, pool);
  const bool* const found = memo_->carried.find(key);
  return known->second = found ? *found : memo_->carried.keep(key, find_carries(service, pool));
}

bool PoolOracle::find_carries(const plan::Service& service, const model::Pool& pool) {
  const Rps rate = plan::planning_rate(service);
  const model::PoolSlo wanted = planned_slo(service);
  const Guess guessed = poisson(service) ? guess(pool, wanted, rate) : Guess::unclear;
  if (guessed != Guess::unclear) return guessed == Guess::yes;
  return holds_at(service, pool, wanted, rate, quick(test_of(pool, rate, units_)));
}

PoolOracle::Answer PoolOracle::check(const plan::Service& service, const PoolParts& parts) {
  const auto [known, fresh] = checked_.emplace(Key{question(service), parts}, Answer{});
  if (!fresh) return known->second;
  const model::Pool pool = pool_of(service, parts);
  if (memo_ == nullptr || !poisson(service)) return known->second = find_check(service, pool);
  const PoolMemo::Key key = PoolMemo::key_of(service, pool);
  const Answer* const found = memo_->checked.find(key);
  return known->second = found ? *found : memo_->checked.keep(key, find_check(service, pool));
}

PoolOracle::Answer PoolOracle::find_check(const plan::Service& service, const model::Pool& pool) {
  Answer answer;
  const Rps rate = plan::planning_rate(service);
  const model::PoolSlo wanted = planned_slo(service);
  const Guess guessed = poisson(service) ? guess(pool, wanted, rate) : Guess::unclear;
  if (guessed == Guess::no) return answer;
  model::PoolTest test = test_of(pool, rate, units_);
  if (guessed == Guess::yes) {
    // The percentile is asked for all the same, and a few processes take longer to show it.
    test.fewest = roomy(shape_of(pool), wanted) ? kFewestWhenSure
                                                : std::clamp(test.fewest, kFewestElse, kMostQuick);
  } else if (idle_enough(pool, wanted, rate)) {
    test.fewest = worth(kLateWhenIdle, wanted, kFewestWhenSure);
  } else {
    test.fewest = worth(kLateElse, wanted, std::max(test.fewest, kFewestElse));
    const double idle = 1 - rate / model::fluid(pool);
    if (idle > 1 - model::kSaturated)
      test.fewest = std::max(test.fewest, clusters_at(wanted, idle));
    if (!roomy(shape_of(pool), wanted)) test.after_stall = kAfterStall;
    if (!roomy(shape_of(pool), wanted) && wanted.late < kRare)
      test.fewest = std::max(test.fewest, rushes_at(wanted, rate));
  }
  test.most = std::max(test.most, 2 * test.fewest);
  test.hurried = true;  // nobody asks how late a pool is that does not hold
  const model::PoolVerdict verdict = examine(service, pool, wanted, rate, test);
  // The percentile is of a part of the requests, which may have been unlucky ones.
  answer = {verdict.holds,
            verdict.holds ? std::min(verdict.percentile, service.slo) : verdict.percentile, rate};
  if (poisson(service) && roomy(shape_of(pool), wanted)) {
    const Rps closed = model::closed_form_capacity(pool, wanted) * (1 - kClosedFormError);
    answer.capacity = std::max(answer.capacity, closed);
  }
  if (wanted.slo.value < kRoomySlo * shape_of(pool).longest) {
    const model::PoolSlo below{service.slo, kSpentBelow * (1 - service.percentile / 100)};
    for (const double load : kLoadsBelow)
      answer.holds = answer.holds && holds_at(service, pool, below, rate * load,
                                              short_test_of(pool, rate * load, units_));
  }
  return answer;
}

}  // namespace partita::planners::serving
