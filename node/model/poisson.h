// A Poisson distribution tabulated over the counts that matter: tail probabilities and expected
// excesses, each O(1) after reset(). Owned by one computation and reused, so that a solver does not
// allocate at every step. Limit: counts further than kPoissonSpread standard deviations from the
// mean count as impossible (< 1e-9).
#pragma once

#include <vector>

namespace partita::model {

inline constexpr double kPoissonSpread = 6;

class Poisson {
 public:
  // Tabulates mean >= 0, in time and space O(sqrt(mean)).
  void reset(double mean);

  double mean() const { return mean_; }
  // Counts below first() and above last() are impossible.
  int first() const { return first_; }
  int last() const { return first_ + static_cast<int>(tail_.size()) - 2; }
  // P(N >= n), any n.
  double tail(int n) const;
  // E[max(N - n, 0)], any n.
  double excess(int n) const;

 private:
  double mean_ = 0;
  int first_ = 0;
  std::vector<double> tail_ = {1, 0};  // P(N >= first + i); the last entry is 0
  std::vector<double> excess_ = {0, 0};
};

inline double Poisson::tail(int n) const {
  if (n <= first_) return 1;
  return n > last() ? 0 : tail_[static_cast<std::size_t>(n - first_)];
}

inline double Poisson::excess(int n) const {
  if (n <= first_) return mean_ - n;
  return n > last() ? 0 : excess_[static_cast<std::size_t>(n - first_)];
}

}  // namespace partita::model
