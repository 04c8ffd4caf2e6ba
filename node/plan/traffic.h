// Traffic: how the requests of a service arrive, as its owner declares it: the headroom to plan
// with, the law of the arrivals, and the rates over a day. Values; the generator is arrivals.h.
// Every law is stated relative to a mean rate, so that any of them can be played at any rate.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"

namespace partita::plan {

inline constexpr int kMinutesOfDay = 24 * 60;

struct PoissonArrivals {
  bool operator==(const PoissonArrivals&) const = default;
};
// Evenly spaced, from a random phase.
struct EvenArrivals {
  bool operator==(const EvenArrivals&) const = default;
};
inline constexpr double kMaxCv = 100;
// A renewal process whose gaps are gamma distributed with this coefficient of variation; 1 is
// Poisson.
struct GammaArrivals {
  double cv = 1;
  bool operator==(const GammaArrivals&) const = default;
};

// Poisson at `peak` times the mean rate for `seconds` of every `every` seconds, and at `quiet()`
// times the mean rate for the rest. peak >= 1, 0 < seconds < every, peak * seconds <= every.
struct OnOff {
  double peak = 1, seconds = 1, every = 2;
  double quiet() const { return (every - peak * seconds) / (every - seconds); }
  bool operator==(const OnOff&) const = default;
};
// Bursts of a fixed length at fixed distances, from a random phase.
struct BurstArrivals {
  OnOff on_off;
  bool operator==(const BurstArrivals&) const = default;
};
// Bursts and pauses of exponentially distributed lengths (a Markov-modulated Poisson process of two
// states); `seconds` and `every` are means.
struct MmppArrivals {
  OnOff on_off;
  bool operator==(const MmppArrivals&) const = default;
};

// What was recorded: either times in ascending order, at least two and not all equal, or how many
// requests each minute had, not all 0.
struct TrafficTrace {
  std::vector<double> times_s;
  std::vector<double> per_minute;
  // How long it takes before it repeats: of n times, n mean gaps.
  Seconds span() const;
  Rps mean() const;
  bool operator==(const TrafficTrace&) const = default;
};
// A recording, again and again, at the mean rate that is asked for: times are stretched, counts are
// multiplied (and are Poisson within their minute). Equal when what was recorded is equal, whatever
// file it came from; where one of them is not loaded (a plan names its traces only), when the file
// and its row are.
struct TraceArrivals {
  std::string file;  // as its service names it
  std::string row;  // of several in the file, the one that has this text; empty: the service's name
  std::shared_ptr<const TrafficTrace> trace = {};  // null: not loaded yet
  int line = 0;                                    // that names the file, for messages
  bool operator==(const TraceArrivals& other) const;
};

using Arrivals = std::variant<PoissonArrivals, EvenArrivals, GammaArrivals, BurstArrivals,
                              MmppArrivals, TraceArrivals>;
inline bool is_poisson(const Arrivals& arrivals) {
  return std::holds_alternative<PoissonArrivals>(arrivals);
}
// "poisson", "uniform", "gamma, cv 2", "burst, 3 x for 5 s of every 60 s", "trace FILE".
std::string to_string(const Arrivals& arrivals);

// From this minute of the day on, until the next of the list.
struct RateAt {
  int minute = 0;  // 0 to kMinutesOfDay - 1
  Rps rate;
  bool operator==(const RateAt&) const = default;
};

struct Traffic {
  double headroom = 0;  // share of the rate that is planned for on top
  Arrivals arrivals;
  std::vector<RateAt> rates = {};  // ascending minutes; empty: the same all day
  bool operator==(const Traffic&) const = default;
};

// The rate at a minute of the day: of the last entry at or before it, else of the last of the day
// before; `rates` is not empty.
Rps rate_at(const std::vector<RateAt>& rates, int minute);

}  // namespace partita::plan
