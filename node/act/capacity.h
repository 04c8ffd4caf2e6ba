// Capacities of services before, during and after a change. The unit of a service is requests per
// second where that is known of all of its segments, else compute slices. Internal to actuate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "act/wanted.h"

namespace partita::actuate {

// Whether a capacity is at least so much, but for the last digits: sums come in another order than
// those they are compared with.
inline bool reaches(double have, double floor) { return have >= floor - 1e-9 * (1 + floor); }

class Capacities {
 public:
  // A segment that runs before, or will run after the change, on an instance of so many slices.
  void before(const Segment& segment, int gpcs) { count(segment, gpcs, false); }
  void after(const Segment& segment, int gpcs) { count(segment, gpcs, true); }

  // Number of a service, in order of mention; -1 for no service.
  int service(const std::string& name) const;
  const std::vector<std::string>& services() const { return names_; }
  // What one segment adds to its service. All segments must have been counted.
  double of(const Segment& segment, int gpcs) const;

  // Per service: capacity before and after.
  std::vector<double> now() const { return totals(false); }
  std::vector<double> then() const { return totals(true); }
  // Per service the share of the smaller of the two.
  std::vector<double> floors(double share) const;

 private:
  struct Totals {
    double rps = 0;
    int gpcs = 0;
  };
  struct Service {
    Totals before, after;
    bool by_rate = true;
  };
  void count(const Segment& segment, int gpcs, bool after);
  std::vector<double> totals(bool after) const;

  std::vector<std::string> names_;
  std::map<std::string, int> numbers_;
  std::vector<Service> services_;
};

}  // namespace partita::actuate
