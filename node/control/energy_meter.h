// Whose joules a node's boards take, as telemetry comes in: what a board took between two samples,
// told apart as `partita energy attribute` does it: above idle by how busy each instance was, idle
// power by compute slices. What a board takes without work is learned: while nothing works, else
// the least that there was, which is at most that. Before the second sample nothing is known.
#pragma once

#include <map>
#include <string>

#include "model/energy/tenancy.h"
#include "hw/telemetry/sample.h"

namespace partita::control {

struct Draw {
  double watts = 0;   // mean between the last two samples
  double joules = 0;  // since the meter began; never falls
  bool operator==(const Draw&) const = default;
};

class EnergyMeter {
 public:
  // Who is where when the sample is taken. A sample that is not newer than the last is passed over;
  // an interval of more than kLongest was watched by nobody: it is in no figure.
  void see(const telemetry::Sample& sample, const energy::Tenancy& tenancy);
  // By tenant, as the tenancy names them. What a tenant had stays when it has gone, with no watts.
  const std::map<std::string, Draw>& draws() const { return draws_; }

  static constexpr double kLongestS = 300;

 private:
  struct Idle {
    Watts watts;
    bool seen = false;  // nothing worked; else the least of all
  };

  telemetry::Sample last_;
  std::map<std::string, Idle> idle_;  // by board
  std::map<std::string, Draw> draws_;
};

}  // namespace partita::control
