// What the judge says of replicas of language models that are not as they must be. Pure.
#pragma once

#include <string>

#include "plan/serving.h"
#include "verify/findings.h"
#include "verify/token_replica.h"

namespace partita::verify {

// A replica as planned against the engine that it names, of `units` SMs; `subject` names it.
void check_replica(const plan::PlannedInstance& planned, const profile::TokenEngine& engine,
                   int units, const std::string& subject, Findings& findings);

// A replica that does not keep what its service promises at this load.
void report_replica(const plan::Service& service, const plan::PlannedInstance& planned, Rps load,
                    const ReplicaVerdict& verdict, Findings& findings);

}  // namespace partita::verify
