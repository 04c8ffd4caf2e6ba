// The rate of a service, minute by minute, as a simulation plays it: the day of the services file,
// or a hill with its top at the file's rate; week-ends, shifts that stay, bursts that nobody
// foresees, noise. Follows from the seed. Values; pure.
#pragma once

#include <vector>

#include "base/rng.h"
#include "plan/serving.h"

namespace partita::control {

struct TrafficShape {
  double trough = 0.3;   // of a day without rates of its own: lowest rate, share of the file's
  double weekend = 0.8;  // of Saturday and Sunday
  double shifts_per_day = 0.5;  // the level moves to another one and stays there
  double shift = 0.2;           // by at most so much, up or down
  double bursts_per_day = 2;
  double burst = 0.5;         // on top, at most
  double burst_minutes = 20;  // mean
  double ramp_minutes = 8;    // a burst takes so long to rise and to fall
  double noise = 0.02;        // standard deviation of a minute
};

class SimTraffic {
 public:
  SimTraffic(const plan::Service& service, const TrafficShape& shape, int minutes, Rng rng);
  // So many of another's requests come besides, each minute.
  void add(const SimTraffic& other, double times);
  // Requests per second in that minute; after the last one as in it.
  double rate(std::int64_t minute) const;
  double peak() const;
  double mean() const;

 private:
  std::vector<double> rates_;  // by minute
};

struct SimService {
  plan::Service wanted;
  SimTraffic traffic;
};

}  // namespace partita::control
