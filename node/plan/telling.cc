#include "plan/telling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>


namespace partita::plan {
namespace {

constexpr double kBursts = 12;         // of a fixed length
constexpr double kRandomBursts = 150;
// As many are played where these are too many.
constexpr std::size_t kFixed = 4, kFewestRandom = 6, kRandom = 16;
constexpr double kBefore = 0.1;        // of what is played of a pause, before the first burst
constexpr double kNearlyAsBusy = 0.7;  // as the busiest
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

// Bursts, each before its pause, behind a pause that does not count.
std::vector<Stretch> bursts(const OnOff& on_off, Rps rate, bool random, double most) {
  const double burst = on_off.peak * rate.value * on_off.seconds;
  const double pauses = on_off.every * rate.value - burst;
  const std::size_t whole = clamped(most / (burst + pauses), 0, static_cast<std::size_t>(random ? kRandomBursts : kBursts));
  const std::size_t count = std::max(whole, random ? clamped(most / 2 / burst, kFewestRandom, kRandom)
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
      stretches.push_back({length * (shorter / 2), peak, 1});
      stretches.push_back({length * (shorter / 2), peak, 2 / shorter - 1});
    } else {
      stretches.push_back({length, peak});
    }
    add_phase({Seconds{off * (on_off.every - on_off.seconds)}, quiet}, shorter, each, stretches);
  }
  return stretches;
}

// A recording at a rate: its requests per part of it.
struct Recording {
  const TrafficTrace& trace;
  double scale = 1;  // of recorded times
  double part = kMinute;
  std::vector<double> counts = {};
};

Recording recording(const TrafficTrace& trace, Rps rate) {
  const double scale = trace.mean().value / rate.value;
  if (trace.times_s.empty()) {
    Recording counts{trace, scale, kMinute, trace.per_minute};
    for (double& one : counts.counts) one /= scale;
    return counts;
  }
  constexpr double kInPart = 400;
  constexpr std::size_t kMostParts = 4096;
  const std::size_t parts =
      clamped(static_cast<double>(trace.times_s.size()) / kInPart, 1, kMostParts);
  Recording found{trace, scale, trace.span().value / static_cast<double>(parts) * scale,
                  std::vector<double>(parts)};
  for (const double time : trace.times_s)
    ++found.counts[std::min(parts - 1, static_cast<std::size_t>((time - trace.times_s.front()) *
                                                                scale / found.part))];
  return found;
}

// The parts from `first` on.
struct Busiest {
  std::size_t first = 0, parts = 1;
  double requests = 0;
};

// The longest of 1, 2, 4, ... parts whose requests are no more than `most`; else one.
Busiest busiest_of(const std::vector<double>& counts, double most) {
  std::vector<double> until{0};
  for (const double one : counts) until.push_back(until.back() + one);
  Busiest found;
  for (std::size_t parts = 1; parts <= counts.size(); parts *= 2) {
    Busiest next{0, parts, -1};
    for (std::size_t i = 0; i + parts <= counts.size(); ++i)
      if (const double sum = until[i + parts] - until[i]; sum > next.requests)
        next = {i, parts, sum};
    if (parts > 1 && next.requests > most) break;
    found = next;
  }
  return found;
}

// A part as it was recorded, or so much of its beginning.
Stretch part_of(const Recording& recorded, std::size_t i, double share, double weight) {
  const double from = recorded.part * static_cast<double>(i), length = recorded.part * share;
  Stretch one{Seconds{length}, Rps{recorded.counts[i] / recorded.part}, weight};
  const std::vector<double>& times = recorded.trace.times_s;
  if (times.empty()) return one;
  const auto place = [&](double time) {
    const double recorded_at = times.front() + time / recorded.scale;
    return static_cast<std::size_t>(std::ranges::lower_bound(times, recorded_at) - times.begin());
  };
  one.first = place(from);
  one.last = place(from + length);
  one.into = Seconds{from};
  one.rate = Rps{static_cast<double>(one.last - one.first) / length};
  return one;
}

// `most` requests or the whole that follows the parts, before the next that are as busy.
std::vector<std::size_t> aftermath(const std::vector<double>& counts, std::size_t end, double most,
                                   double busy) {
  std::vector<std::size_t> parts;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t i = (end + k) % counts.size();
    if (parts.empty() && counts[i] >= busy) continue;
    if (counts[i] >= busy || counts[i] > most) break;
    most -= counts[i];
    parts.push_back(i);
  }
  return parts;
}

std::vector<Stretch> of_recording(const Recording& recorded, double most) {
  const std::vector<double>& counts = recorded.counts;
  const Busiest busiest = busiest_of(counts, most / 4);
  const double busy = kNearlyAsBusy * busiest.requests / static_cast<double>(busiest.parts);
  const auto after = aftermath(counts, busiest.first + busiest.parts, most / 4, busy);
  double alike = 0, others = 0, after_it = 0;
  for (const double one : counts) (one >= busy ? alike : others) += one;
  for (const std::size_t i : after) after_it += counts[i];
  // Of what is less busy, what follows the busiest stands for as much as that, the day for the rest.
  const double times = alike / busiest.requests;
  const double followed = after_it > 0 ? std::min(times, others / after_it) : 0;
  const double shorter = std::min(1.0, most / 2 / (alike + others));
  const double rest = others > 0 ? (others - followed * after_it) / others / shorter : 0;
  std::vector<Stretch> stretches;
  for (const double one : counts)
    stretches.push_back({Seconds{recorded.part * shorter}, Rps{one / recorded.part},
                         one >= busy ? 0 : rest});
  const double share = std::min(1.0, most / 4 / busiest.requests);
  for (std::size_t i = 0; i < busiest.parts; ++i)
    stretches.push_back(part_of(recorded, busiest.first + i, share, times / share));
  for (const std::size_t i : after) stretches.push_back(part_of(recorded, i, 1, followed));
  return stretches;
}

}  // namespace

long telling_requests(const Arrivals& arrivals, Rps rate, long most) {
  return static_cast<long>(std::min(telling(arrivals, rate), static_cast<double>(most)));
}

std::vector<Stretch> telling_stretches(const Arrivals& arrivals, Rps rate, long most) {
  const auto limit = static_cast<double>(most);
  if (telling(arrivals, rate) <= limit) return {};
  if (const auto* burst = std::get_if<BurstArrivals>(&arrivals))
    return bursts(burst->on_off, rate, false, limit);
  if (const auto* mmpp = std::get_if<MmppArrivals>(&arrivals))
    return bursts(mmpp->on_off, rate, true, limit);
  const auto* recorded = std::get_if<TraceArrivals>(&arrivals);
  return recorded ? of_recording(recording(*recorded->trace, rate), limit) : std::vector<Stretch>();
}

}  // namespace partita::plan
