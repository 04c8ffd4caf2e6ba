// MeasuredRatio: how many times as long as expected something has taken of late. A weighted median
// of what was measured in the last kRatioFades and of kDoubt samples that say 1, so that a few odd
// ones move nothing, and so that it is 1 again once nothing was measured for so long. A sample
// weighs less the older it is, and those of one client together kMostVotes at most, however many
// there are. Never smaller where a sample was larger. Times are nanoseconds. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita::serve {

inline constexpr std::int64_t kRatioFades = 60'000'000'000;
inline constexpr double kDoubt = 2, kMostVotes = 4;
inline constexpr std::size_t kSamplesOfClient = 8, kMostSamples = 64;
inline constexpr double kMostCorrection = 50;  // either way

class MeasuredRatio {
 public:
  // What is not above 0 says nothing. `client`: any number that distinguishes them.
  void add(double ratio, std::uint64_t client, std::int64_t now);
  double at(std::int64_t now) const;

 private:
  struct Sample {
    double ratio = 1;
    std::uint64_t client = 0;
    std::int64_t at = 0;
  };
  double median(std::int64_t now) const;

  std::vector<Sample> samples_ = {};  // the oldest first
  mutable double known_ = 1;
  mutable std::int64_t known_until_ = 0;
};

}  // namespace partita::serve
