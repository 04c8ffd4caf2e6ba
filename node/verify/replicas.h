// What the judge says of replicas of language models that are not as they must be. Pure.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/serving.h"
#include "verify/findings.h"
#include "verify/token_replica.h"

namespace partita::verify {

struct PoolMemo;

// A replica as planned against the engine that it names, of `units` SMs; `subject` names it.
void check_replica(const plan::PlannedInstance& planned, const profile::TokenEngine& engine,
                   int units, const std::string& subject, Findings& findings);

// Instances of a language model as they share its requests: each GPU of a group has one.
struct ReplicaPart {
  const plan::PlannedInstance* planned = nullptr;
  const profile::TokenEngine* engine = nullptr;
  double weight = 0;  // of the service's requests, in proportion
};

// What replicas of one service do under their shares of its rate, equal ones played once.
class Replicas {
 public:
  // `memo` may be null.
  Replicas(const plan::Service& service, PoolMemo* memo) : service_(service), memo_(memo) {}

  // All that are planned; of those that miss what is promised each kind is reported. The time of a
  // whole answer at the percentile, on the slowest.
  Millis check(const std::vector<ReplicaPart>& parts, Findings& findings);
  // What a loss leaves, at least one.
  void check_left(const std::vector<ReplicaPart>& left, const std::string& subject,
                  Findings& findings);

 private:
  using Kind = std::tuple<const profile::TokenEngine*, int, double>;  // at once, requests/s
  // Each kind once, in the order of the parts, with its first instance.
  std::vector<std::pair<Kind, const plan::PlannedInstance*>> kinds(
      const std::vector<ReplicaPart>& parts) const;
  const ReplicaVerdict& judged(const Kind& kind);

  const plan::Service& service_;
  PoolMemo* const memo_;
  std::map<Kind, ReplicaVerdict> judged_;
};

}  // namespace partita::verify
