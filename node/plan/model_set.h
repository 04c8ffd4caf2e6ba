// A set of models behind one service: many that are rarely asked for share its instances. An
// instance holds as many as its memory has room for, loads the others when they are asked for, and
// lets go of the one that was asked for longest ago. A part of Terms; a value.
//
// Which models are asked for is drawn anew for each request, by their weights; requests come as a
// Poisson process, one at a time through an instance.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace partita::plan {

inline constexpr std::size_t kMostSetModels = 100'000;

struct SetModel {
  std::string name;
  double weight = 1;  // of the requests, in proportion
  bool operator==(const SetModel&) const = default;
};

struct ModelSet {
  std::vector<SetModel> models = {};
  Mib memory = {};   // of one that is loaded
  Mib reserve = {};  // of the process with none
  Millis load = {};  // of one, from its file to its first answer, at most
  Millis cold =
      {};  // of a request whose model is not loaded; 0: nothing is promised beside the SLO
  bool operator==(const ModelSet&) const = default;
};

// How many models an instance with so much memory holds at once, at most all; 0: not one.
int held_in(const ModelSet& set, Mib memory);
// "2000 models of 120 MiB, loaded in 350 ms".
std::string to_string(const ModelSet& set);

// What a plan states of such a service.
struct SetOutlook {
  int held = 0;           // models, of the instance that holds fewest
  double cold_share = 0;  // of its requests, in the long run, at most of an instance's
  Millis cold;            // of those, at the service's percentile
  bool operator==(const SetOutlook&) const = default;
};

}  // namespace partita::plan
