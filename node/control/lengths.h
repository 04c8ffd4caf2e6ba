// Lengths: how long prompts and answers of language models are. The services file says it, and what
// the gateway counts corrects that: plans are made for requests as they come. The brain of that; it
// writes its part of the memory only. Internal to control.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/desired.h"
#include "control/memory.h"
#include "control/report.h"
#include "control/verdict.h"

namespace partita::control {

class Lengths {
 public:
  // `kept` outlives this.
  explicit Lengths(std::vector<LengthKept>& kept) : kept_(kept) {}

  // Other services are wanted now: of those that are gone, or say other lengths than before,
  // nothing is known.
  void begin(const std::vector<plan::Service>& services);
  // What the gateway counted, once a minute.
  void see(const ServersSeen& servers, Report& report);
  // The services as their requests are: lengths times what they were found to be off by.
  DesiredNow corrected(DesiredNow wanted) const;

 private:
  struct Sums {  // of answers; older ones count less
    double answers = 0, in = 0, out = 0;
  };
  LengthKept* find(const std::string& service);

  std::vector<LengthKept>& kept_;  // by service
  std::map<std::string, Sums> sums_;
};

}  // namespace partita::control
