#include "llm/engine/tails.h"

#include <algorithm>
#include <cmath>

namespace partita::llm {
namespace {

// The smallest of ascending times that so many percent are not above.
double percentile_of(const std::vector<double>& ascending, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(ascending.size()));
  return ascending[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

// Of one kind of time: what was measured beside what is simulated.
class Gathered {
 public:
  void add(const Percentiles& measured, std::vector<double> simulated) {
    std::ranges::sort(simulated);
    for (std::size_t i = 0; i < std::size(kPercentiles); ++i) {
      const std::optional<Millis>& one = measured.*kPercentiles[i];
      if (!one) continue;
      const double said = percentile_of(simulated, kPercents[i]);
      const double error = said / one->value - 1;
      sum_ += std::abs(error);
      lowest_ = std::min(lowest_, error);
      ++count_;
      if (said > 0) times_ = std::max(times_, one->value / said);
      more_ = std::max(more_, one->value - said);
    }
  }
  profile::TailMargin margin() const { return {times_, more_}; }
  int count() const { return count_; }
  double mean() const { return count_ > 0 ? sum_ / count_ : 0; }
  double lowest() const { return lowest_; }

 private:
  int count_ = 0;
  double sum_ = 0, lowest_ = 0, times_ = 1, more_ = 0;
};

bool any(const Percentiles& percentiles) {
  return std::ranges::any_of(kPercentiles, [&](auto at) { return (percentiles.*at).has_value(); });
}

}  // namespace

bool has_percentiles(const std::vector<Point>& points) {
  return std::ranges::any_of(
      points, [](const Point& point) { return any(point.ttft_at) || any(point.tpot_at); });
}

Tails tails_of(const LearnedEngine& engine, const std::vector<Point>& points) {
  Gathered ttft, tpot;
  for (const Point& point : points) {
    if (!any(point.ttft_at) && !any(point.tpot_at)) continue;
    const auto times = point.rate ? open_times(engine, point.shape, *point.rate)
                                  : loop_times(engine, point.shape,
                                               static_cast<int>(std::lround(point.concurrency)));
    if (!times) continue;
    std::vector<double> first, each;
    for (const LoopTimes& one : *times) {
      first.push_back(one.ttft.value);
      each.push_back(one.tpot.value);
    }
    ttft.add(point.ttft_at, std::move(first));
    if (point.shape.tokens_out > 1) tpot.add(point.tpot_at, std::move(each));
  }
  Tails tails{ttft.margin(), tpot.margin(), {}};
  if (ttft.count() + tpot.count() > 0)
    tails.errors = TailErrors{.percentiles = std::max(ttft.count(), tpot.count()),
                              .tpot_error = tpot.mean(),
                              .ttft_error = ttft.mean(),
                              .tpot_lowest = tpot.lowest(),
                              .ttft_lowest = ttft.lowest()};
  return tails;
}

}  // namespace partita::llm
