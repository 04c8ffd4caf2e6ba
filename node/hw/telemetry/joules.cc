#include "hw/telemetry/joules.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/median.h"
#include "hw/telemetry/physics.h"

namespace partita::telemetry {
namespace {

constexpr Seconds kSpread{1};  // of the counter over readings of the moment

// Where a board stands in the log.
struct Sighting {
  std::size_t sample = 0, gpu = 0;
};

struct Curve {
  std::vector<std::pair<double, double>> points;  // seconds, watts; ascending
  bool moment = false;                            // readings of the moment, quick ones

  double at(double time) const {
    const auto above =
        std::ranges::upper_bound(points, time, {}, &std::pair<double, double>::first);
    if (above == points.begin()) return points.front().second;
    if (above == points.end()) return points.back().second;
    const auto below = std::prev(above);
    const double part = (time - below->first) / (above->first - below->first);
    return below->second + part * (above->second - below->second);
  }

  double integral(double from, double to) const {
    double sum = 0, time = from, value = at(from);
    auto next = std::ranges::upper_bound(points, from, {}, &std::pair<double, double>::first);
    for (; next != points.end() && next->first < to; ++next) {
      sum += (next->first - time) * (value + next->second) / 2;
      std::tie(time, value) = *next;
    }
    return sum + (to - time) * (value + at(to)) / 2;
  }
};

// Between readings, in the middle.
double usual_interval(const Log& log, const std::vector<Sighting>& seen) {
  std::vector<double> lengths;
  for (std::size_t i = 1; i < seen.size(); ++i)
    lengths.push_back((log[seen[i].sample].at - log[seen[i - 1].sample].at).value);
  return lengths.empty() ? 0 : median(lengths);
}

Curve curve_of(const Log& log, const std::vector<Sighting>& seen) {
  bool average = false, moment = false;
  for (const Sighting& s : seen) {
    average |= log[s.sample].gpus[s.gpu].power_average.has_value();
    moment |= log[s.sample].gpus[s.gpu].power.has_value();
  }
  if (moment && usual_interval(log, seen) < kQuick.value) average = false;
  const double shift = average ? kAveragingWindow.value / 2 : 0;
  Curve curve;
  curve.moment = moment && !average;
  for (const Sighting& s : seen) {
    const GpuSample& gpu = log[s.sample].gpus[s.gpu];
    const auto& power = average ? gpu.power_average : gpu.power;
    if (power) curve.points.emplace_back(log[s.sample].at.value - shift, power->value);
  }
  return curve;
}

bool has_power(const GpuSample& gpu) { return gpu.power || gpu.power_average; }

// By the counter; nothing where it is missing, fell, or grew by more than any board can draw since
// it moved last, so many seconds ago.
std::optional<double> counted(const GpuSample& before, const GpuSample& now, double since) {
  if (!before.energy || !now.energy) return std::nullopt;
  const double joules = now.energy->value - before.energy->value;
  if (joules < 0 || joules > kMostPower.value * since) return std::nullopt;
  return joules;
}

// A counter that moves in steps longer than an interval stands still in some and makes up for it in
// the next: what it grew by is of all of them, in proportion to their power. Its steps begin and
// end somewhere within intervals; where power is known by the moment it tells better when, and the
// counter only how much there was over a longer time.
void spread_steps(const Curve& curve, std::vector<Interval>& intervals) {
  const auto part = [&](const Interval& one) {
    const double watts = curve.points.empty() ? 1 : curve.at(one.from.value + one.length.value / 2);
    return std::max(watts, 1e-9) * one.length.value;
  };
  std::size_t first = 0;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const Interval& now = intervals[i];
    if (now.source != MeterSource::counter || now.gap) {
      first = i + 1;
      continue;
    }
    const bool last = i + 1 == intervals.size() || intervals[i + 1].gap ||
                      intervals[i + 1].source != MeterSource::counter;
    const double length = (now.from + now.length - intervals[first].from).value;
    if (!last && (now.joules <= 0 || (curve.moment && length < kSpread.value))) continue;
    double all = 0, joules = 0;
    for (std::size_t k = first; k <= i; ++k) {
      all += part(intervals[k]);
      joules += intervals[k].joules;
    }
    for (std::size_t k = first; k <= i; ++k)
      intervals[k].joules = joules * part(intervals[k]) / all;
    first = i + 1;
  }
}

Board board_of(const Log& log, const std::vector<Sighting>& seen, double longest) {
  const GpuSample& last = log[seen.back().sample].gpus[seen.back().gpu];
  Board board;
  board.uuid = last.uuid;
  board.model = last.model;
  board.index = last.index;
  const Curve curve = curve_of(log, seen);
  Seconds moved = log[seen.front().sample].at - kAveragingWindow;  // the counter, before the log
  for (std::size_t i = 1; i < seen.size(); ++i) {
    const GpuSample& before = log[seen[i - 1].sample].gpus[seen[i - 1].gpu];
    const GpuSample& now = log[seen[i].sample].gpus[seen[i].gpu];
    Interval interval;
    interval.sample = seen[i].sample;
    interval.gpu = seen[i].gpu;
    interval.from = log[seen[i - 1].sample].at;
    interval.length = log[seen[i].sample].at - interval.from;
    if (interval.length.value <= 0) continue;
    interval.gap = interval.length.value > longest;
    const Seconds end = interval.from + interval.length;
    if (const auto joules = counted(before, now, (end - moved).value)) {
      if (*joules > 0) moved = end;
      interval.joules = *joules;
      interval.source = MeterSource::counter;
      board.counted += interval.length;
    } else if (!interval.gap && has_power(before) && has_power(now) && !curve.points.empty()) {
      interval.joules =
          curve.integral(interval.from.value, interval.from.value + interval.length.value);
      interval.source = MeterSource::power;
      board.integrated += interval.length;
    } else if (now.energy && before.energy && now.energy->value < before.energy->value) {
      interval.joules = now.energy->value;  // since it started anew, which is at least that
      interval.source = MeterSource::counter;
      board.counted += interval.length;
    } else {
      board.unmeasured += interval.length;
    }
    if (before.energy && now.energy && now.energy->value < before.energy->value) ++board.resets;
    if (interval.gap) board.gaps += interval.length;
    board.intervals.push_back(interval);
  }
  spread_steps(curve, board.intervals);
  return board;
}

double longest_of(const Log& log, const MeasureOptions& options) {
  if (options.longest) return options.longest->value;
  std::vector<double> lengths;
  for (std::size_t i = 1; i < log.size(); ++i)
    lengths.push_back(log[i].at.value - log[i - 1].at.value);
  if (lengths.empty()) return kLeastGap.value;
  return std::max(kLeastGap.value, kGapFactor * median(lengths));
}

}  // namespace

const char* to_string(MeterSource source) {
  switch (source) {
    case MeterSource::counter:
      return "counter";
    case MeterSource::power:
      return "power";
    case MeterSource::nothing:
      break;
  }
  return "nothing";
}

double Board::joules() const {
  double sum = 0;
  for (const Interval& interval : intervals) sum += interval.joules;
  return sum;
}

std::vector<Board> measure(const Log& log, const MeasureOptions& options) {
  // A board is its UUID: indices change when one falls off the bus.
  std::map<std::pair<std::string, int>, std::vector<Sighting>> seen;
  for (std::size_t s = 0; s < log.size(); ++s)
    for (std::size_t g = 0; g < log[s].gpus.size(); ++g) {
      const GpuSample& gpu = log[s].gpus[g];
      seen[{gpu.uuid, gpu.uuid.empty() ? gpu.index : 0}].push_back({s, g});
    }
  const double longest = longest_of(log, options);
  std::vector<Board> boards;
  for (const auto& [key, sightings] : seen) boards.push_back(board_of(log, sightings, longest));
  std::ranges::sort(boards, [](const Board& a, const Board& b) {
    return std::pair(a.index, a.uuid) < std::pair(b.index, b.uuid);
  });
  return boards;
}

}  // namespace partita::telemetry
