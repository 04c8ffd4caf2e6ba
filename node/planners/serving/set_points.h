// Sets of models (plan/model_set.h) beside other services: what an instance carries that holds as
// many as its memory has room for, as a point for the same core. Requests are split among
// instances at random, so that each is asked for all models: which are cold then depends on how
// many it holds, and not on how many instances there are.
//
// What it carries is played, request by request: which of them are cold does not depend on the
// rate, so they are drawn once. Part of the late ones that the percentile allows is left over
// (kSpentOfSets). Che's law (model/model_cache.h) says beforehand where no rate will do.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "planners/serving/points.h"

namespace partita::planners::serving {

inline constexpr double kSpentOfSets = 0.85;

class SetTrials;

// Plays; answers equal questions once. The problem must outlive it.
class SetOracle {
 public:
  explicit SetOracle(const plan::ServingProblem& problem);
  ~SetOracle();

  // Adds the points of all services with sets to the table of a fleet entry.
  void add_to(PointTable& table, std::size_t entry);
  // The row of such a service: what is planned, how long requests take, how many are cold;
  // and how many models its instances hold.
  void fill_row(const plan::Service& service, plan::ServingPlan& plan, plan::PlannedService& row);

 private:
  using Key = std::pair<std::string, int>;  // service, models held
  const SetTrials& trials(const plan::Service& service, int held);
  Rps most(const plan::Service& service, int held, const profile::ProfilePoint& point);

  const plan::ServingProblem& problem_;
  std::map<Key, std::unique_ptr<SetTrials>> trials_;
  std::map<std::pair<Key, double>, Rps> rates_;  // by the time of a run
};

// No instance of the fleet carries any of its requests: what comes closest.
plan::Reason missed_set(const plan::ServingProblem& problem, const plan::Service& service);

}  // namespace partita::planners::serving
