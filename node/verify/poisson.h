// Poisson laws of the judge, on Boost's incomplete gamma functions: it shares no method with the
// planners' model (model/poisson.h), which sums weights and divides by their sum. Values are
// immutable once built. Limits: means up to some 1e6 (memory ~ its root).
#pragma once

#include <vector>

namespace partita::verify {

// P(N <= n) of one count, without a table; mean >= 0, n >= 0.
double poisson_cdf(double mean, int n);

// One law as a table over the window that holds all but ~1e-14 of its mass.
class Poisson {
 public:
  // mean >= 0.
  explicit Poisson(double mean);

  double mean() const { return mean_; }
  int first() const { return first_; }  // window [first, last]; P is taken as 0 outside
  int last() const { return first_ + static_cast<int>(tail_.size()) - 2; }

  // P(N >= n), P(N <= n), P(N = n).
  double tail(int n) const;
  double cdf(int n) const { return 1 - tail(n + 1); }
  double at(int n) const;

  // For a Poisson process that has seen N arrivals in an interval: how many of them, on average,
  // found at least `m` earlier arrivals of the interval. E[(N - m)^+] for m >= 0, the mean for m <
  // 0.
  double found_at_least(int m) const;

 private:
  double mean_;
  int first_ = 0;
  std::vector<double> tail_;  // tail_[i] = P(N >= first_ + i); the last entry is 0
};

}  // namespace partita::verify
