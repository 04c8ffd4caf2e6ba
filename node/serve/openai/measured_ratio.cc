#include "serve/openai/measured_ratio.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace partita::serve {
namespace {

constexpr std::int64_t kKnownFor = 250'000'000;  // it changes slowly by itself

}  // namespace

void MeasuredRatio::add(double ratio, std::uint64_t client, std::int64_t now) {
  if (!(ratio > 0) || !std::isfinite(ratio)) return;
  std::erase_if(samples_, [&](const Sample& one) { return now - one.at >= kRatioFades; });
  const auto its = [&](const Sample& one) { return one.client == client; };
  if (std::cmp_greater_equal(std::ranges::count_if(samples_, its), kSamplesOfClient))
    samples_.erase(std::ranges::find_if(samples_, its));
  else if (samples_.size() >= kMostSamples)
    samples_.erase(samples_.begin());
  samples_.push_back({std::clamp(ratio, 1 / kMostCorrection, kMostCorrection), client, now});
  known_until_ = 0;
}

double MeasuredRatio::at(std::int64_t now) const {
  if (samples_.empty()) return 1;
  if (now >= known_until_) {
    known_ = median(now);
    known_until_ = now + kKnownFor;
  }
  return known_;
}

double MeasuredRatio::median(std::int64_t now) const {
  const auto fresh = [&](const Sample& one) {
    const auto age = static_cast<double>(now - one.at) / static_cast<double>(kRatioFades);
    return std::clamp(1 - age, 0.0, 1.0);
  };
  std::vector<std::pair<double, double>> votes{{1.0, kDoubt}};  // ratio, weight
  double all = kDoubt;
  for (const Sample& one : samples_) {
    double of_client = 0;
    for (const Sample& other : samples_)
      if (other.client == one.client) of_client += fresh(other);
    const double weight = fresh(one) * std::min(1.0, kMostVotes / std::max(of_client, 1e-9));
    votes.emplace_back(one.ratio, weight);
    all += weight;
  }
  std::ranges::sort(votes);
  double sum = 0;
  for (const auto& [ratio, weight] : votes)
    if ((sum += weight) >= all / 2) return ratio;
  return 1;
}

}  // namespace partita::serve
