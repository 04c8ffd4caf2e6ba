// Speeds: how fast engines of language models are, over how fast their measured points say. What
// the gateway measures of requests is compared with a simulation of the plan at the same rate and
// lengths, so that waiting and prompts in between count on both sides. The brain of that; it writes
// its part of the memory only. Internal to control.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/desired.h"
#include "control/memory.h"
#include "control/report.h"
#include "control/verdict.h"
#include "control/world.h"

namespace partita::control {

class Speeds {
 public:
  // `kept` outlives this.
  explicit Speeds(std::vector<SpeedKept>& kept) : kept_(kept) {}

  // The engines as they were found to be, from those that were measured.
  std::vector<plan::FleetEntry> corrected(std::vector<plan::FleetEntry> measured) const;
  // Of services whose engines are otherwise, another key.
  DesiredNow corrected(DesiredNow wanted) const;
  // Once a minute, while the node is as `plan` wants it; whether an engine turned out to be
  // otherwise than `problem`, which has them corrected and lengths as they are, says.
  struct Ground {
    const ServersSeen& servers;
    const plan::ServingProblem& problem;
    const plan::ServingPlan& plan;
  };
  bool see(const Ground& ground, Report& report);

 private:
  struct Ratios {  // logarithms of measured over expected; older ones count less
    double minutes = 0, sum = 0;
  };
  void note(const plan::Service& service, const Ground& ground, const ServiceLoad& load);
  double* slower(const std::string& model);

  std::vector<SpeedKept>& kept_;  // by model
  std::map<std::string, Ratios> ratios_;
};

}  // namespace partita::control
