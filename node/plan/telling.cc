#include "plan/telling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace partita::plan {
namespace {

constexpr double kBursts = 12;  // of a fixed length
constexpr double kRandomBursts = 150;
// As many are played where these are too many.
constexpr std::size_t kFixed = 4, kFewestRandom = 6, kRandom = 16;
constexpr double kBefore = 0.1;  // of what is played of a pause, before the first burst
constexpr double kMostMore = 0.25;
constexpr int kMostHalvings = 20;
constexpr double kGaps = 20'000;
constexpr double kMinute = 60;

double telling(const Arrivals& arrivals, Rps rate) {
  if (const auto* gamma = std::get_if<GammaArrivals>(&arrivals))
    return kGaps * std::max(1.0, gamma->cv * gamma->cv);
  if (const auto* burst = std::get_if<BurstArrivals>(&arrivals))
    return kBursts * burst->on_off.every * rate.value;
  if (const auto* mmpp = std::get_if<MmppArrivals>(&arrivals))
    return kRandomBursts * mmpp->on_off.every * rate.value;
  const auto* recorded = std::get_if<TraceArrivals>(&arrivals);
  if (!recorded || !recorded->trace) return 0;
  const TrafficTrace& trace = *recorded->trace;
  return trace.times_s.empty() ? trace.span().value * rate.value
                               : static_cast<double>(trace.times_s.size());
}

// The mean of the i-th of n equally likely parts of an exponential law of mean 1.
double part_of_exponential(std::size_t i, std::size_t n) {
  const auto below = [&](std::size_t parts) {
    const double rest = 1 - static_cast<double>(parts) / static_cast<double>(n);
    return rest > 0 ? rest - rest * std::log(rest) : 0;
  };
  return static_cast<double>(n) * (below(i) - below(i + 1));
}

std::size_t clamped(double count, std::size_t fewest, std::size_t most) {
  return static_cast<std::size_t>(
      std::clamp(count, static_cast<double>(fewest), static_cast<double>(most)));
}

// Adds a phase of which `each` requests can be played at `shorter` of its length: what is left out
// then counts with the second half of what is played.
void add_phase(Stretch phase, double shorter, double each, std::vector<Stretch>& into) {
  const double length = phase.length.value * shorter, rate = phase.rate.value;
  const double played = rate > 0 ? std::min(length, each / rate) : length;
  if (played >= length) {
    phase.length = Seconds{length};
    phase.weight = 1 / shorter;
    into.push_back(phase);
    return;
  }
  const Seconds half{played / 2};
  const double first = 1 / shorter;
  into.push_back({half, phase.rate, first});
  into.push_back({half, phase.rate, phase.length.value / half.value - first});
}

// How many times as many come of `played` requests at a rate, so that what falls behind shows it.
double more_of(double played, Rps rate, Millis slo) {
  return 1 + std::min(kMostMore, rate.value * slo.value / 1e3 / played);
}

// Bursts, each before its pause, behind a pause that does not count.
std::vector<Stretch> bursts(const OnOff& on_off, Rps rate, Millis slo, bool random, double most) {
  const double burst = on_off.peak * rate.value * on_off.seconds;
  const double pauses = on_off.every * rate.value - burst;
  const std::size_t whole = clamped(most / (burst + pauses), 0,
                                    static_cast<std::size_t>(random ? kRandomBursts : kBursts));
  const std::size_t count =
      std::max(whole, random ? clamped(most / 2 / burst, kFewestRandom, kRandom)
                             : clamped(most / 8 / burst, 1, kFixed));
  const auto n = static_cast<double>(count);
  const double shorter = std::min(1.0, most / 2 / (n * burst));
  const double each = whole == count ? pauses * n : most / n - burst * shorter;
  const Rps quiet = rate * std::max(0.0, on_off.quiet());
  const double before = std::min(on_off.every - on_off.seconds, kBefore * each / quiet.value);
  std::vector<Stretch> stretches{{Seconds{before}, quiet, 0}};
  std::size_t step = count * 5 / 8 + 1;  // pairs lengths with others
  while (std::gcd(step, count) != 1) ++step;
  for (std::size_t i = 0; i < count; ++i) {
    const double on = random ? part_of_exponential(i * step % count, count) : 1;
    const double off = random ? part_of_exponential(i, count) : 1;
    const Seconds length{on * on_off.seconds};
    const Rps peak = rate * on_off.peak;
    if (shorter < 1) {
      const double more = more_of(burst * shorter, peak, slo);
      const Seconds half = length * (shorter / 2 / more);
      stretches.push_back({half, peak * more, 1});
      stretches.push_back({half, peak * more, 2 / shorter - 1});
    } else {
      stretches.push_back({length, peak});
    }
    add_phase({Seconds{off * (on_off.every - on_off.seconds)}, quiet}, shorter, each, stretches);
  }
  return stretches;
}

// A recording at a rate, once.
class Period {
 public:
  Period(const TrafficTrace& trace, Rps rate)
      : trace_(trace), scale_(trace.mean().value / rate.value) {
    for (const double count : trace.per_minute) until_.push_back(until_.back() + count / scale_);
  }

  double length() const { return trace_.span().value * (timed() ? scale_ : 1); }
  double requests_until(double time) const {
    if (timed()) return static_cast<double>(recorded_before(time));
    const std::size_t i = minute_at(time);
    const double into = std::min(1.0, time / kMinute - static_cast<double>(i));
    return until_[i] + into * (until_[i + 1] - until_[i]);
  }

  // Adds what lies between; `more` times as much where it is Poisson's.
  void cut(double from, double to, double weight, double more, std::vector<Stretch>& into) const {
    if (timed()) {
      const std::size_t first = recorded_before(from), last = recorded_before(to);
      into.push_back({Seconds{to - from}, Rps{static_cast<double>(last - first) / (to - from)},
                      weight, first, last, Seconds{from}});
      return;
    }
    for (std::size_t i = minute_at(from); i + 1 < until_.size() && from < to; ++i) {
      const double end = std::min(kMinute * static_cast<double>(i + 1), to);
      const Rps rate{(until_[i + 1] - until_[i]) / kMinute};
      if (end > from) into.push_back({Seconds{(end - from) / more}, rate * more, weight});
      from = std::max(from, end);
    }
  }

 private:
  bool timed() const { return !trace_.times_s.empty(); }
  std::size_t minute_at(double time) const {
    return std::min(static_cast<std::size_t>(time / kMinute), until_.size() - 2);
  }
  std::size_t recorded_before(double time) const {
    const std::vector<double>& times = trace_.times_s;
    const double until = times.front() + time / scale_;
    return static_cast<std::size_t>(std::ranges::lower_bound(times, until) - times.begin());
  }

  const TrafficTrace& trace_;
  double scale_ = 1;              // of recorded times; of counts' requests its inverse
  std::vector<double> until_{0};  // requests until the ends of minutes
};

struct Window {
  double from = 0, requests = 0;
};

// The busiest first.
std::vector<Window> windows_of(const Period& period, std::size_t count) {
  std::vector<Window> windows(count);
  const double each = period.length() / static_cast<double>(count);
  double before = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double until = period.requests_until(each * static_cast<double>(i + 1));
    windows[i] = {each * static_cast<double>(i), until - before};
    before = until;
  }
  std::ranges::stable_sort(windows, std::ranges::greater{}, &Window::requests);
  return windows;
}

// The first of 1, 1, 2, 4, ... windows.
std::size_t first_of(int number) { return number == 0 ? 0 : std::size_t{1} << (number - 1); }

std::vector<Stretch> of_recording(const Period& period, Millis slo, double most) {
  for (int halvings = 1;; ++halvings) {
    const auto windows = windows_of(period, std::size_t{1} << halvings);
    double all = 0;
    for (int i = 0; i <= halvings; ++i) all += windows[first_of(i)].requests;
    if (all > most && halvings < kMostHalvings) continue;
    const double kept = std::min(1.0, most / all);  // of a window
    const double length = kept * period.length() / static_cast<double>(windows.size());
    std::vector<Stretch> stretches;
    for (int i = 0; i <= halvings; ++i) {
      const Window& window = windows[first_of(i)];
      double sum = 0;
      for (std::size_t k = first_of(i); k < first_of(i + 1); ++k) sum += windows[k].requests;
      const double weight = window.requests > 0 ? sum / window.requests / kept : 0;
      const double played = window.requests * kept;
      const double more = length < kMinute ? more_of(played + 1, Rps{played / length}, slo) : 1;
      period.cut(window.from, window.from + length, weight, more, stretches);
    }
    return stretches;
  }
}

}  // namespace

long telling_requests(const Arrivals& arrivals, Rps rate, long most) {
  return static_cast<long>(std::min(telling(arrivals, rate), static_cast<double>(most)));
}

std::vector<Stretch> telling_stretches(const Arrivals& arrivals, Rps rate, Millis slo, long most) {
  const auto limit = static_cast<double>(most);
  if (telling(arrivals, rate) <= limit) return {};
  if (const auto* burst = std::get_if<BurstArrivals>(&arrivals))
    return bursts(burst->on_off, rate, slo, false, limit);
  if (const auto* mmpp = std::get_if<MmppArrivals>(&arrivals))
    return bursts(mmpp->on_off, rate, slo, true, limit);
  const auto* recorded = std::get_if<TraceArrivals>(&arrivals);
  return recorded ? of_recording(Period(*recorded->trace, rate), slo, limit)
                  : std::vector<Stretch>();
}

}  // namespace partita::plan
