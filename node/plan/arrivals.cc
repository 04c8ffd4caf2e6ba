#include "plan/arrivals.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace partita::plan {
namespace {

constexpr double kSecondNs = 1e9, kMinuteNs = 60e9;
constexpr double kNeverNs = 9e18;  // about 285 years
// Phases between two arrivals; beyond that many their rates have averaged out.
constexpr long kMaxPhases = 1'000'000;

// A far future stands for "never" before the conversion to integers could overflow.
Nanos to_nanos(double ns) { return ns < kNeverNs ? static_cast<Nanos>(ns) : kForever; }

}  // namespace

// How a source starts under each law.
struct ArrivalSource::Laws {
  Rps rate;
  Rng rng;

  ArrivalSource operator()(const PoissonArrivals&) const { return poisson(rate, rng); }
  ArrivalSource operator()(const EvenArrivals&) const { return uniform(rate, rng); }
  ArrivalSource operator()(const GammaArrivals& gamma) const {
    ArrivalSource source(Kind::gamma, rate, rng);
    CHECK(gamma.cv > 0);
    source.shape_ = 1 / (gamma.cv * gamma.cv);
    return source;
  }
  ArrivalSource operator()(const BurstArrivals& burst) const {
    ArrivalSource source(Kind::burst, rate, rng);
    source.start_on_off(burst.on_off, rate);
    return source;
  }
  ArrivalSource operator()(const MmppArrivals& mmpp) const {
    ArrivalSource source(Kind::mmpp, rate, rng);
    source.start_on_off(mmpp.on_off, rate);
    return source;
  }
  ArrivalSource operator()(const TraceArrivals& recorded) const {
    CHECK(recorded.trace != nullptr);
    ArrivalSource source(recorded.trace->times_s.empty() ? Kind::counts : Kind::times, rate, rng);
    source.start_trace(recorded.trace, rate);
    return source;
  }
};

ArrivalSource::ArrivalSource(Kind kind, Rps rate, Rng rng) : kind_(kind), rng_(rng) {
  CHECK(rate.value > 0);
  gap_ns_ = kSecondNs / rate.value;
}

ArrivalSource ArrivalSource::poisson(Rps rate, Rng rng) {
  return ArrivalSource(Kind::poisson, rate, rng);
}

ArrivalSource ArrivalSource::uniform(Rps rate, Rng rng) {
  ArrivalSource source(Kind::uniform, rate, rng);
  source.clock_ns_ = source.rng_.uniform() * source.gap_ns_;
  return source;
}

ArrivalSource ArrivalSource::of(const Arrivals& arrivals, Rps rate, Rng rng) {
  return std::visit(Laws{rate, rng}, arrivals);
}

ArrivalSource ArrivalSource::recorded(std::span<const double> times_s) {
  ArrivalSource source;
  source.times_s_ = times_s;
  return source;
}

ArrivalSource ArrivalSource::of(std::span<const Stretch> stretches, const Arrivals& arrivals,
                                Rps rate, Rng rng) {
  ArrivalSource source(Kind::stretches, rate, rng);
  if (const auto* recorded = std::get_if<TraceArrivals>(&arrivals);
      recorded && !recorded->trace->times_s.empty()) {
    source.trace_ = recorded->trace;
    source.scale_ = recorded->trace->mean().value / rate.value * kSecondNs;
  }
  source.stretches_ = stretches;
  if (!stretches.empty()) source.start_stretch();
  return source;
}

void ArrivalSource::start_on_off(const OnOff& on_off, Rps rate) {
  CHECK(0 < on_off.seconds && on_off.seconds < on_off.every);
  on_ns_ = on_off.seconds * kSecondNs;
  off_ns_ = (on_off.every - on_off.seconds) * kSecondNs;
  on_rate_ = rate.value * on_off.peak / kSecondNs;
  off_rate_ = std::max(0.0, rate.value * on_off.quiet() / kSecondNs);
  if (kind_ == Kind::mmpp) {
    on_ = rng_.uniform() * on_off.every >= on_off.seconds;  // next_phase() turns it around
    next_phase();
    return;
  }
  cycle_ns_ = on_off.every * kSecondNs;
  const double into_cycle = rng_.uniform() * cycle_ns_;
  on_ = into_cycle < on_ns_;
  phase_rate_ = on_ ? on_rate_ : off_rate_;
  phase_end_ns_ = (on_ ? on_ns_ : cycle_ns_) - into_cycle;
}

void ArrivalSource::start_trace(std::shared_ptr<const TrafficTrace> trace, Rps rate) {
  trace_ = std::move(trace);
  const double mean = trace_->mean().value;
  CHECK(mean > 0);
  if (kind_ == Kind::times) {
    scale_ = std::min(mean / rate.value * kSecondNs, kNeverNs);
    cycle_ns_ = trace_->span().value * scale_;
    return;
  }
  cycle_ns_ = trace_->span().value * kSecondNs;
  scale_ = rate.value / mean / kMinuteNs;
  index_ = trace_->per_minute.size() - 1;
  next_phase();
}

// The phase that follows the present one begins at its end.
void ArrivalSource::next_phase() {
  if (kind_ == Kind::counts) {
    index_ = (index_ + 1) % trace_->per_minute.size();
    phase_rate_ = trace_->per_minute[index_] * scale_;
    phase_end_ns_ += kMinuteNs;
    return;
  }
  on_ = !on_;
  phase_rate_ = on_ ? on_rate_ : off_rate_;
  phase_end_ns_ += (on_ ? on_ns_ : off_ns_) * (kind_ == Kind::mmpp ? rng_.exponential() : 1);
}

// The time by which one more arrival than before is due: the integral of the rate grows by an
// exponential variable of mean 1 from arrival to arrival.
double ArrivalSource::modulated() {
  double need = rng_.exponential();
  const auto skip = [this, &need](double arrivals, double ns) {
    need -= arrivals;
    clock_ns_ += ns;
    phase_end_ns_ += ns;
  };
  if (cycle_ns_ > 0) {
    const double cycles = std::floor(need * gap_ns_ / cycle_ns_);
    skip(cycles * cycle_ns_ / gap_ns_, cycles * cycle_ns_);
  }
  for (long phases = 0; clock_ns_ < kNeverNs; ++phases) {
    if (phases == kMaxPhases) skip(need, need * gap_ns_);
    const double left = (phase_end_ns_ - clock_ns_) * phase_rate_;
    if (need < left || (need <= 0 && phase_rate_ > 0)) {
      clock_ns_ += std::max(0.0, need) / phase_rate_;
      return clock_ns_;
    }
    need -= left;
    clock_ns_ = phase_end_ns_;
    next_phase();
  }
  return clock_ns_;
}

// The present stretch begins at the end of the one before.
void ArrivalSource::start_stretch() {
  const Stretch& now = stretches_.front();
  index_ = now.first;
  phase_rate_ = now.rate.value / kSecondNs;
  clock_ns_ = phase_end_ns_;
  phase_end_ns_ += now.length.value * kSecondNs;
}

double ArrivalSource::in_stretches() {
  for (double need = rng_.exponential(); !stretches_.empty();) {
    const Stretch& now = stretches_.front();
    if (index_ < now.last) {
      const double at = (trace_->times_s[index_++] - trace_->times_s.front()) * scale_;
      return phase_end_ns_ - (now.into + now.length).value * kSecondNs + at;
    }
    const double left = now.first < now.last ? 0 : (phase_end_ns_ - clock_ns_) * phase_rate_;
    if (need < left) return clock_ns_ += need / phase_rate_;
    need -= left;
    stretches_ = stretches_.subspan(1);
    if (!stretches_.empty()) start_stretch();
  }
  return kNeverNs;
}

// The recorded times, once more whenever they have ended.
double ArrivalSource::replayed() {
  const std::vector<double>& times = trace_->times_s;
  if (index_ == times.size()) {
    index_ = 0;
    ++number_;
  }
  return number_ * cycle_ns_ + (times[index_++] - times.front()) * scale_;
}

// Marsaglia's polar method; the second of the pair is not kept, so that a copy of a source draws
// the same.
double ArrivalSource::normal() {
  for (;;) {
    const double x = 2 * rng_.uniform() - 1, y = 2 * rng_.uniform() - 1;
    const double s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2 * std::log(s) / s);
  }
}

// Gamma distributed with mean `shape` and scale 1: Marsaglia and Tsang, A simple method for
// generating gamma variables, ACM TOMS 26 (2000); below 1 by their note on shape + 1.
double ArrivalSource::gamma(double shape) {
  if (shape < 1) {
    const double larger = gamma(shape + 1);
    return larger * std::pow(1 - rng_.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - rng_.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

Nanos ArrivalSource::next() {
  switch (kind_) {
    case Kind::poisson:
      clock_ns_ += rng_.exponential() * gap_ns_;
      return to_nanos(clock_ns_);
    case Kind::uniform:
      return to_nanos(clock_ns_ + gap_ns_ * number_++);
    case Kind::gamma: {
      // The gap that time 0 falls into is drawn by its length, and 0 lies anywhere in it.
      const bool first = number_++ == 0;
      const double gap = first ? rng_.uniform() * gamma(shape_ + 1) : gamma(shape_);
      clock_ns_ += gap / shape_ * gap_ns_;
      return to_nanos(clock_ns_);
    }
    case Kind::burst:
    case Kind::mmpp:
    case Kind::counts:
      return to_nanos(modulated());
    case Kind::times:
      return to_nanos(replayed());
    case Kind::stretches:
      return to_nanos(in_stretches());
    case Kind::recorded:
      break;
  }
  if (times_s_.empty()) return kForever;
  const double time_s = times_s_.front();
  times_s_ = times_s_.subspan(1);
  return to_nanos(std::round(time_s * kSecondNs));
}

}  // namespace partita::plan
