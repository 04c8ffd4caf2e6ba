// FanOuts: how many requests of a step come for one of its pipeline. The services file says it, and
// what the gateway counts corrects that: plans are made for as many as come. The brain of that; it
// writes its part of the memory only. A step that is asked for exactly once for each (no fan_out in
// the file) is no fan-out, and nothing is learned of it. Internal to control.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/desired.h"
#include "control/memory.h"
#include "control/report.h"
#include "control/verdict.h"

namespace partita::control {

class FanOuts {
 public:
  // `kept` outlives this.
  explicit FanOuts(std::vector<FanOutKept>& kept) : kept_(kept) {}

  // Other services are wanted now: of pipelines that are gone, and steps that are to fan out
  // otherwise than before, nothing is known.
  void begin(const std::vector<plan::Service>& services);
  // What the gateway counted, once a minute.
  void see(const ServersSeen& servers, Report& report);
  // The services as their file would be with the fan-outs that were found: the rates of steps
  // follow.
  DesiredNow corrected(DesiredNow wanted) const;

 private:
  using Step = std::pair<std::string, int>;
  struct Counted {
    actuate::FanOutCounts last = {};
    std::string by = {};            // the gateway's process
    double requests = 0, rows = 0;  // older ones count less
  };

  std::vector<FanOutKept>& kept_;  // by pipeline, step
  std::map<Step, Counted> counted_;
};

}  // namespace partita::control
