// When the requests of one service arrive: every law of traffic.h, and recorded times. A source is
// a small value with its own random stream, cheap to copy; it produces one time after another, so
// that traffic of any length needs no memory. Planners, judge and simulator draw from this one.
// Laws with a state (gamma, burst, mmpp) begin in their steady state: the expected number of
// requests is rate x time from the start.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/rng.h"
#include "base/units.h"
#include "plan/dispatcher.h"
#include "plan/telling.h"
#include "plan/traffic.h"

namespace partita::plan {

class ArrivalSource {
 public:
  ArrivalSource() = default;  // nothing ever arrives
  // rate > 0.
  static ArrivalSource poisson(Rps rate, Rng rng);
  static ArrivalSource uniform(Rps rate, Rng rng);
  // Any law at a mean rate > 0; a trace must be loaded.
  static ArrivalSource of(const Arrivals& arrivals, Rps rate, Rng rng);
  // `times_s` ascending, once; the caller keeps them alive.
  static ArrivalSource recorded(std::span<const double> times_s);
  // What stands for such arrivals (telling_stretches() of these), once; the caller keeps it alive.
  static ArrivalSource of(std::span<const Stretch> stretches, const Arrivals& arrivals, Rps rate,
                          Rng rng);

  // The next arrival, never before the previous one; kForever when a recording has ended.
  Nanos next();

 private:
  enum class Kind { recorded, poisson, uniform, gamma, burst, mmpp, times, counts, stretches };
  struct Laws;

  ArrivalSource(Kind kind, Rps rate, Rng rng);
  void start_on_off(const OnOff& on_off, Rps rate);
  void start_trace(std::shared_ptr<const TrafficTrace> trace, Rps rate);
  double gamma(double shape);
  double normal();
  double modulated();
  void next_phase();
  double replayed();
  void start_stretch();
  double in_stretches();

  Kind kind_ = Kind::recorded;
  Rng rng_{0};
  double gap_ns_ = 0;    // mean time between arrivals
  double clock_ns_ = 0;  // the previous arrival; uniform: the phase
  double number_ = 0;    // uniform: arrivals so far; times: repetitions so far
  double shape_ = 1;     // gamma
  // Poisson arrivals whose rate depends on the phase: burst, mmpp, counts.
  double phase_end_ns_ = 0;
  double phase_rate_ = 0;  // arrivals per ns now
  double on_rate_ = 0, on_ns_ = 0;
  double off_rate_ = 0, off_ns_ = 0;
  bool on_ = false;
  double cycle_ns_ = 0;  // burst, times, counts: what repeats
  double scale_ = 1;     // times: of the times; counts: arrivals per ns and count
  std::size_t index_ = 0;
  std::shared_ptr<const TrafficTrace> trace_;
  std::span<const double> times_s_;
  std::span<const Stretch> stretches_;  // the present one, and those that follow
};

}  // namespace partita::plan
