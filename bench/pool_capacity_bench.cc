// What a pool carries, by the two models of model/pool.h and by the simulator: random pools of the
// published A100 profiles, one kind of instance or several, 1 to 200 processes, SLOs of 1.1 to 6
// times the longest batch, 0.05 to 5 % late; those whose capacity is 0.5 to 0.99 of full batches.
// The truth is a bisection on long runs of ServiceWorld, below the first load of a grid that fails.
// Asks the judge's simulation at 0.95 and at 1.1 times that as well.
// Arguments: first and last pool (200), requests of one run (400,000). Exit code 1 when a model is
// off by more than 2 % on average or more than 5 % too optimistic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/pool.h"
#include "profile/testing/published.h"
#include "sim/service_world.h"
#include "verify/driven_queue.h"

namespace partita {
namespace {

// Where the planner trusts the closed form (pool_oracle.cc).
constexpr int kManyProcesses = 4;
constexpr double kRoomySlo = 1.6;
constexpr double kTrustedShare = 0.85;

struct Case {
  std::string text;
  model::Pool pool;
  model::PoolSlo wanted;
  std::vector<plan::PoolMember> members;
  int processes = 0;
  double longest = 0;
  // As many equal processes: one that does nearly all counts as one.
  double effective() const {
    double sum = 0, squares = 0;
    for (const model::PoolClass& one : pool) {
      const double each = one.curve.max_batch() / one.curve.steps.back().latency.value;
      sum += one.processes * each;
      squares += one.processes * each * each;
    }
    return sum * sum / squares * (1 + 1e-9);
  }
  bool roomy() const {
    return effective() >= kManyProcesses && wanted.slo.value >= kRoomySlo * longest;
  }
};

Case case_of(int number) {
  Rng rng(static_cast<std::uint64_t>(number) + 400);
  const profile::ProfileTable& table = profile::published_profiles();
  auto model = table.begin();
  std::advance(model, static_cast<long>(rng.below(table.size())));
  const std::uint64_t kinds = rng.below(2) == 0 ? 1 : 2 + rng.below(2);
  const double most = std::pow(200, rng.uniform()) / static_cast<double>(kinds);
  Case result{model->first, {}, {Millis{0}, 0.0005 * std::pow(100, rng.uniform())}, {}, 0, 0};
  for (std::uint64_t k = 0; k < kinds; ++k) {
    const profile::ProfilePoint& point =
        model->second.points[rng.below(model->second.points.size())];
    const profile::BatchCurve curve =
        profile::batch_curve(model->second, point.gpcs, point.processes, point.batch);
    const int instances = std::max(1, static_cast<int>(std::lround(most / point.processes)));
    result.pool.push_back({curve, instances * point.processes});
    for (int i = 0; i < instances; ++i) result.members.push_back({curve, point.processes});
    result.processes += instances * point.processes;
    result.longest = std::max(result.longest, curve.steps.back().latency.value);
    result.text +=
        fmt::format(" {}x{}g/{}/{}", instances, point.gpcs, point.batch, point.processes);
  }
  result.wanted.slo = Millis{result.longest * 1.1 * std::pow(6 / 1.1, rng.uniform())};
  return result;
}

// Share of the requests that end late in the simulator.
double late(const Case& one, Rps load, double requests) {
  const double seconds = requests / load.value;
  const auto slo = static_cast<sim::Nanos>(std::llround(one.wanted.slo.value * 1e6));
  const sim::ServiceOutcome outcome = sim::ServiceWorld().run(
      {.arrivals = sim::ArrivalSource::poisson(load, Rng(11)),
       .queues = {{plan::pooled_policy(one.members, slo), model::fluid(one.pool)}},
       .slo = slo,
       .warmup = static_cast<sim::Nanos>(seconds / 50 * 1e9),
       .end = static_cast<sim::Nanos>(seconds * 1e9)});
  return 1 - static_cast<double>(outcome.within_slo) / static_cast<double>(outcome.offered);
}

// As a share of full batches; 1 when even 0.99 holds.
double simulated(const Case& one, double requests) {
  const Rps full = model::fluid(one.pool);
  const auto holds = [&](double share, double length) {
    return late(one, full * share, length) <= one.wanted.late;
  };
  double low = 0, high = 1;
  for (const double share : {0.3, 0.4, 0.5, 0.58, 0.66, 0.74, 0.82, 0.9, 0.95, 0.99}) {
    if (!holds(share, requests / 2)) {
      high = share;
      break;
    }
    low = share;
  }
  while (high < 1 && high - low > 0.002) {
    const double middle = (low + high) / 2;
    (holds(middle, 2 * requests) ? low : high) = middle;
  }
  return high < 1 ? (low + high) / 2 : 1;
}

struct Errors {
  explicit Errors(std::string model) : name(std::move(model)) {}
  void add(double model, double truth) {
    const double error = model / truth - 1;
    sum += std::abs(error);
    ++count;
    worst_high = std::max(worst_high, error);
    worst_low = std::min(worst_low, error);
    above += error > 0.05 ? 1 : 0;
  }
  bool good() const { return count == 0 || (sum / count <= 0.02 && above == 0); }
  void print() const {
    fmt::print(
        "{}: {} pools, mean error {:.2f} %, at most {:.1f} % too high and {:.1f} % too low; "
        "{} more than 5 % too high\n",
        name, count, 100 * sum / std::max(1, count), 100 * worst_high, -100 * worst_low, above);
  }

  std::string name;
  int count = 0, above = 0;
  double sum = 0, worst_high = 0, worst_low = 0;
};

int run(int first, int last, double requests) {
  Errors closed_form(
      "closed form, from 4 processes, 1.6 x the longest batch and 0.85 of full batches");
  Errors below("closed form, such pools below 0.85, where it refuses nothing");
  Errors counted("pool_capacity, such pools"), tight("pool_capacity, other pools");
  int passed = 0, refused = 0, all = 0;
  verify::UnitArrivals units;
  for (int number = first; number < last; ++number) {
    const Case one = case_of(number);
    const double truth = simulated(one, requests);
    if (truth < 0.5 || truth >= 0.99) continue;
    const Rps full = model::fluid(one.pool);
    const double closed = model::closed_form_capacity(one.pool, one.wanted) / full;
    const double capacity = model::pool_capacity(one.pool, one.wanted) / full;
    if (one.roomy()) (closed >= kTrustedShare ? closed_form : below).add(closed, truth);
    (one.roomy() ? counted : tight).add(capacity, truth);
    if (capacity > 1.03 * truth || (one.roomy() && std::abs(closed / truth - 1) > 0.03))
      fmt::print(
          "{}:{}; {} processes, slo/longest {:.2f}, late {:.4f}: simulated {:.3f}, "
          "pool_capacity {:.3f}, closed form {:.3f}\n",
          number, one.text, one.processes, one.wanted.slo.value / one.longest, one.wanted.late,
          truth, capacity, closed);
    const auto slo = static_cast<plan::Nanos>(std::llround(one.wanted.slo.value * 1e6));
    const auto judge = [&](double factor) {
      return verify::drive({plan::pooled_policy(one.members, slo), full * truth * factor,
                            one.wanted.slo, 100 * (1 - one.wanted.late)},
                           units)
          .holds;
    };
    ++all;
    passed += judge(0.95) ? 1 : 0;
    refused += judge(1.1) ? 0 : 1;
    std::fflush(stdout);
  }
  closed_form.print();
  below.print();
  counted.print();
  tight.print();
  fmt::print("of {} pools the judge passes {} at 0.95 and refuses {} at 1.1 x capacity\n", all,
             passed, refused);
  return closed_form.good() && below.above == 0 && counted.good() && tight.good() ? 0 : 1;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const int first = argc > 1 ? std::stoi(argv[1]) : 0;
  const int last = argc > 2 ? std::stoi(argv[2]) : 200;
  return partita::run(first, last, argc > 3 ? std::stod(argv[3]) : 400'000);
}
