// Asks of one pool: does it keep the SLO at the planned rate, and with what percentile latency?
// Answers are remembered: equal pools are asked for again and again.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/pool.h"
#include "plan/arrivals.h"
#include "plan/serving.h"
#include "planners/serving/pool_memo.h"

namespace partita::planners::serving {

// Instances of a service that run the same point.
struct PoolPart {
  std::size_t entry = 0;  // of the fleet
  int gpcs = 0;
  int batch = 0;
  int processes = 0;
  int instances = 0;
  auto operator<=>(const PoolPart&) const = default;
};
using PoolParts = std::vector<PoolPart>;  // sorted

// Half of what the percentile allows: a minute of traffic scatters around its steady state.
// From this multiple of the longest batch on, an SLO leaves room for the closed form.
inline constexpr double kRoomySlo = 1.6;
inline constexpr double kSpentLate = 0.5;
// The longest run that is made to see rare misses, and how many of those that a percentile allows
// must fit into it: beyond 99.99975 % there are none to be seen.
inline constexpr long kLongestRun = 4'000'000;
inline constexpr double kFewestSeen = 10;
inline double highest_percentile() { return 100 * (1 - kFewestSeen / kLongestRun); }
model::PoolSlo planned_slo(const plan::Service& service);

class PoolOracle {
 public:
  // `memo` may be null; else it outlives this. Of bursts of which more than `most_told` requests
  // tell, what stands for them is played (plan/telling.h).
  explicit PoolOracle(const plan::ServingProblem& problem, PoolMemo* memo = nullptr,
                      long most_told = plan::kMostTelling)
      : problem_(problem), memo_(memo), most_told_(most_told) {}

  // Services that ask the same questions have the same number.
  int question(const plan::Service& service);

  // A quick answer: by the closed form where it is good and clear, else by simulation.
  bool carries(const plan::Service& service, const PoolParts& parts);

  // A thorough one, at the rate and (where a batch takes most of the SLO) at loads below.
  using Answer = PoolAnswer;
  Answer check(const plan::Service& service, const PoolParts& parts);

  model::Pool pool_of(const plan::Service& service, const PoolParts& parts) const;

 private:
  using Key = std::pair<int, PoolParts>;
  // Arrivals that are not Poisson, drawn once for all runs of a service at a rate; of stretches
  // that stand for more (telling.h) all of them.
  struct Drawn {
    const plan::Service* service = nullptr;
    double rate = 0;
    std::vector<plan::Stretch> stretches;
    std::vector<long> ends;  // how many have come at the end of each stretch
    plan::ArrivalSource source;
    std::vector<plan::Nanos> times;
  };
  bool find_carries(const plan::Service& service, const model::Pool& pool);
  Answer find_check(const plan::Service& service, const model::Pool& pool);

  bool poisson(const plan::Service& service) const;
  std::size_t law_of(const plan::Service& service);
  Drawn& drawn(const plan::Service& service, Rps rate);
  model::PoolArrivals arrivals_of(const plan::Service& service, Rps rate);
  bool holds_in_stretches(const Drawn& played, const model::PoolSlo& wanted, model::PoolRun& run);
  model::PoolVerdict examine(const plan::Service& service, const model::Pool& pool,
                             const model::PoolSlo& wanted, Rps rate, const model::PoolTest& test);
  bool holds_at(const plan::Service& service, const model::Pool& pool, const model::PoolSlo& wanted,
                Rps rate, const model::PoolTest& test);

  const plan::ServingProblem& problem_;
  PoolMemo* memo_;
  const long most_told_;
  model::UnitPoisson units_{0x9001};
  std::vector<plan::Arrivals> laws_{plan::PoissonArrivals{}};
  Drawn drawn_;
  std::map<std::tuple<std::string, double, double, double, std::size_t>, int> questions_;
  std::map<Key, bool> carried_;
  std::map<Key, Answer> checked_;
};

}  // namespace partita::planners::serving
