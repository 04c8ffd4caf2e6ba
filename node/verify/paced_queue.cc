#include "verify/paced_queue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/index.h"

namespace partita::verify {
namespace {

// The lattice ends where the stationary backlog is rarer than this.
constexpr double kRareBacklog = 1e-9;
// Late requests rarer than this, per cycle, are not chased.
constexpr double kRareEvent = 1e-13;
constexpr double kLatencyPrecision = 1e-4;

// Lundberg's exponent: with full batches only, P(backlog >= r) <= exp(-theta r), where theta > 0
// solves mean (e^theta - 1) = theta B. The function is convex with a growing curvature, so the root
// lies between its minimum and twice that, and Newton's steps from above never cross it.
double backlog_exponent(double mean, int max_batch) {
  const double minimum = std::log(max_batch / mean);
  double theta = 2 * minimum;
  for (int i = 0; i < 60; ++i) {
    const double step =
        (mean * std::expm1(theta) - theta * max_batch) / (mean * std::exp(theta) - max_batch);
    if (!(theta - step > minimum && step > 1e-9 * theta)) break;
    theta -= step;
  }
  return theta;
}

// I - K^T, where K(r, r') = P(B + r' - r arrivals) moves a backlog under full batches; banded and
// factored. K is sub-stochastic, so elimination needs no pivots.
class BacklogMatrix {
 public:
  BacklogMatrix(const Poisson& arrivals, int max_batch, int depth)
      : depth_(depth),
        up_(std::clamp(arrivals.last() - max_batch, 0, depth - 1)),
        down_(std::clamp(max_batch - arrivals.first(), 0, depth - 1)),
        cells_(at(depth) * at(up_ + down_ + 1)) {
    for (int i = 0; i < depth_; ++i)
      for (int j = std::max(0, i - up_); j <= std::min(depth_ - 1, i + down_); ++j)
        cell(i, j) = (i == j ? 1 : 0) - arrivals.at(max_batch + i - j);
    for (int k = 0; k < depth_; ++k)
      for (int i = k + 1; i <= std::min(depth_ - 1, k + up_); ++i) eliminate(k, i);
  }

  // Cells that the matrix of such a depth would have.
  static double cells(const Poisson& arrivals, int max_batch, double depth) {
    const double band = 1 + std::min(depth, std::max(0.0, 1.0 * arrivals.last() - max_batch)) +
                        std::min(depth, std::max(0.0, 1.0 * max_batch - arrivals.first()));
    return depth * band;
  }

  // The expected visits of every backlog when `entries` start there.
  std::vector<double> visits(std::vector<double> entries) const {
    for (int k = 0; k < depth_; ++k)
      for (int i = k + 1; i <= std::min(depth_ - 1, k + up_); ++i)
        entries[at(i)] -= cell(i, k) * entries[at(k)];
    for (int k = depth_ - 1; k >= 0; --k) {
      for (int j = k + 1; j <= std::min(depth_ - 1, k + down_); ++j)
        entries[at(k)] -= cell(k, j) * entries[at(j)];
      entries[at(k)] /= cell(k, k);
    }
    return entries;
  }

 private:
  double& cell(int i, int j) { return cells_[at(i) * at(up_ + down_ + 1) + at(j - i + up_)]; }
  double cell(int i, int j) const { return cells_[at(i) * at(up_ + down_ + 1) + at(j - i + up_)]; }
  void eliminate(int k, int i) {
    const double factor = cell(i, k) / cell(k, k);
    cell(i, k) = factor;
    const int end = std::min(depth_ - 1, k + down_);
    const double* from = &cell(k, k);
    double* to = &cell(i, k);
    for (int d = 1; d <= end - k; ++d) to[d] -= factor * from[d];
  }

  int depth_, up_, down_;
  std::vector<double> cells_;
};

// The stationary law of a small chain (Grassmann, Taksar, Heyman: no subtractions).
std::vector<double> stationary(std::vector<std::vector<double>> q) {
  constexpr double kUnreachable =
      1e-100;  // stands in for a way down that is too rare for the tables
  for (std::size_t n = q.size() - 1; n > 0; --n) {
    double leave = kUnreachable;
    for (std::size_t j = 0; j < n; ++j) leave += q[n][j];
    for (std::size_t i = 0; i < n; ++i) {
      q[i][n] /= leave;
      for (std::size_t j = 0; j < n; ++j) q[i][j] += q[i][n] * q[n][j];
    }
  }
  std::vector<double> law = {1};
  for (std::size_t n = 1; n < q.size(); ++n) {
    double mass = 0;
    for (std::size_t i = 0; i < n; ++i) mass += law[i] * q[i][n];
    law.push_back(mass);
    for (double& p : law) p /= 1 + mass;
  }
  return law;
}

// Gauss-Legendre, five points on [0, 1].
struct Node {
  double place, weight;
};
constexpr std::array<Node, 5> kNodes = {{{0.046910077030668, 0.118463442528095},
                                         {0.230765344947158, 0.239314335249683},
                                         {0.5, 0.284444444444444},
                                         {0.769234655052842, 0.239314335249683},
                                         {0.953089922969332, 0.118463442528095}}};

template <class Function>
double integrate(double from, double to, int pieces, const Function& f) {
  double sum = 0;
  const double width = (to - from) / pieces;
  for (int piece = 0; piece < pieces; ++piece)
    for (const Node& node : kNodes) sum += node.weight * f(from + width * (piece + node.place));
  return sum * width;
}

}  // namespace

Rps PacedQueue::saturation(const profile::BatchCurve& curve, int processes) {
  const profile::BatchCurve::Step& full = curve.steps.back();
  return Rps{1000.0 * processes * full.batch / full.latency.value};
}

PacedQueue::PacedQueue(const profile::BatchCurve& curve, int processes, Rps load)
    : rate_(load.value / 1000), max_batch_(curve.max_batch()) {
  if (!(load < saturation(curve, processes))) return;
  for (const profile::BatchCurve::Step& step : curve.steps) {
    const double pace = step.latency.value / processes;
    classes_.push_back({step.batch, step.latency.value, pace, Poisson(rate_ * pace)});
  }
  const Poisson& full = classes_.back().arrivals;
  const double depth =
      std::ceil(-std::log(kRareBacklog) / backlog_exponent(full.mean(), max_batch_));
  stable_ = BacklogMatrix::cells(full, max_batch_, depth) <= kMaxCells;
  if (!stable_) return;
  depth_ = full.last() > max_batch_ ? static_cast<int>(depth) : 0;
  solve();
}

// Visits of every backlog that follow one dispatch of each class which leaves nothing behind.
std::vector<std::vector<double>> PacedQueue::backlog_by_class() const {
  std::vector<std::vector<double>> visits(classes_.size(), std::vector<double>(at(depth_)));
  if (depth_ == 0) return visits;
  const BacklogMatrix matrix(classes_.back().arrivals, max_batch_, depth_);
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].arrivals.tail(max_batch_ + 1) < kRareEvent) continue;
    for (int r = 1; r <= depth_; ++r)
      visits[c][at(r - 1)] = classes_[c].arrivals.at(max_batch_ + r);
    visits[c] = matrix.visits(std::move(visits[c]));
  }
  return visits;
}

// Backlogs are solved for away; what remains is a chain on the classes of dispatches that leave
// nothing behind.
void PacedQueue::solve() {
  const std::vector<std::vector<double>> visits = backlog_by_class();
  const std::size_t n = classes_.size();
  std::vector<std::vector<double>> q(n, std::vector<double>(n));
  for (std::size_t c = 0; c < n; ++c) {
    for (std::size_t to = 0; to < n; ++to) {
      const int lowest = to == 0 ? 0 : classes_[to - 1].largest + 1;
      const auto lands = [&](const Poisson& arrivals, int left) {
        return arrivals.tail(lowest - left) - arrivals.tail(classes_[to].largest + 1 - left);
      };
      q[c][to] = lands(classes_[c].arrivals, 0);
      for (int r = 1; r <= depth_; ++r)
        q[c][to] += visits[c][at(r - 1)] * lands(classes_.back().arrivals, r);
    }
  }
  mass_ = stationary(std::move(q));
  backlog_.assign(at(depth_), 0);
  for (std::size_t c = 0; c < n; ++c) {
    idle_ += mass_[c] * classes_[c].arrivals.at(0);
    arrivals_ += mass_[c] * classes_[c].arrivals.mean();
    for (std::size_t r = 0; r < backlog_.size(); ++r) backlog_[r] += mass_[c] * visits[c][r];
  }
  for (const double mass : backlog_) arrivals_ += mass * classes_.back().arrivals.mean();
  arrivals_ += idle_;
}

// How many dispatches of class c leave r behind; only full ones leave any.
double PacedQueue::share_of_backlog(std::size_t c, int r) const {
  if (r == 0) return mass_[c];
  return c + 1 == classes_.size() && r <= depth_ ? backlog_[at(r - 1)] : 0;
}

// An arrival at instant u of the pace waits for its rest and for the full batches ahead of it. It
// is late when it comes before some instant that depends on how long its own batch takes. In the
// first batch, how many come before and after it together is Poisson whatever u is; later batches
// are taken to be full.
double PacedQueue::late_in_cycles(std::size_t c, double limit) const {
  const Class& cycle = classes_[c];
  const Class& full = classes_.back();
  const int deepest = c + 1 == classes_.size() ? depth_ : 0;
  const auto too_early = [&](double work) {
    return std::clamp(cycle.pace - limit + work, 0.0, cycle.pace);
  };
  double late = 0;
  double before = 0;
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    const double until = too_early(classes_[k].latency);
    const int smaller = k == 0 ? 0 : classes_[k - 1].largest;
    for (int r = 0; until > before && r <= deepest; ++r)
      late += share_of_backlog(c, r) * rate_ * (until - before) * cycle.arrivals.tail(smaller - r);
    before = until;
  }
  const double slack = (limit - cycle.pace - full.latency) / full.pace;
  Poisson seen_before(rate_ * before);
  for (double k = std::max(1.0, std::floor(slack)); before < cycle.pace; ++k) {
    if (k * max_batch_ - deepest > cycle.arrivals.last()) break;
    const double until = too_early(full.latency + k * full.pace);
    Poisson seen_until(rate_ * until);
    for (int r = 0; until > before && r <= deepest; ++r) {
      const int ahead = static_cast<int>(k) * max_batch_ - r;
      late += share_of_backlog(c, r) *
              (seen_until.found_at_least(ahead) - seen_before.found_at_least(ahead));
    }
    before = until;
    seen_before = std::move(seen_until);
  }
  return late;
}

// What late_in_cycles counts too much: requests behind a full batch whose own batch is small enough
// to end in time.
double PacedQueue::spared_in_cycles(std::size_t c, double limit) const {
  const Class& cycle = classes_[c];
  const Class& full = classes_.back();
  const int deepest = c + 1 == classes_.size() ? depth_ : 0;
  const double slack = (limit - cycle.pace - full.latency) / full.pace;
  double spared = 0;
  for (double k = std::max(1.0, std::floor(slack)); k * full.pace + classes_[0].latency < limit;
       ++k) {
    if (k * max_batch_ - deepest > cycle.arrivals.last()) break;
    const double waited = cycle.pace - limit + k * full.pace;
    for (std::size_t b = 0; b + 1 < classes_.size(); ++b) {
      const double from = std::clamp(waited + classes_[b].latency, 0.0, cycle.pace);
      const double to = std::clamp(waited + classes_[b + 1].latency, 0.0, cycle.pace);
      if (!(from < to)) continue;
      // The integrand moves on the scale of a standard deviation of the arrivals.
      const double scale = 1 + 2 * std::sqrt(cycle.arrivals.mean());
      const int pieces = 1 + static_cast<int>(rate_ * (to - from) / scale);
      spared += rate_ * integrate(from, to, pieces, [&](double u) {
                  return spared_at(c, u, static_cast<int>(k), classes_[b].largest);
                });
    }
  }
  return spared;
}

// The chance that an arrival at instant u has `full_batches` full ones ahead and runs in one of at
// most `batch`.
double PacedQueue::spared_at(std::size_t c, double u, int full_batches, int batch) const {
  const Class& cycle = classes_[c];
  const int deepest = c + 1 == classes_.size() ? depth_ : 0;
  const double later_mean =
      rate_ * (cycle.pace - u) + full_batches * classes_.back().arrivals.mean();
  if (poisson_cdf(later_mean, batch - 1) < kRareEvent) return 0;
  const Poisson later(later_mean);
  const Poisson before(rate_ * u);
  double sum = 0;
  for (int place = 0; place < batch; ++place) {
    const int ahead = full_batches * max_batch_ + place;
    double chance = 0;
    const int end = std::min(deepest, ahead - before.first());
    for (int r = std::max(0, ahead - before.last()); r <= end; ++r)
      chance += share_of_backlog(c, r) * before.at(ahead - r);
    sum += chance * later.cdf(batch - 1 - place);
  }
  return sum;
}

double PacedQueue::mixture() const {
  double all = 0;
  double most = 0;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    double mass = mass_[c];
    if (c + 1 == classes_.size()) mass = std::accumulate(backlog_.begin(), backlog_.end(), mass);
    all += mass;
    most = std::max(most, mass);
  }
  return 1 - most / all;
}

double PacedQueue::late_at_most(Millis limit) const {
  if (!stable_) return 1;
  double late = limit.value < classes_[0].latency ? idle_ : 0;
  for (std::size_t c = 0; c < classes_.size(); ++c)
    if (mass_[c] > kRareEvent) late += late_in_cycles(c, limit.value);
  return late / arrivals_;
}

double PacedQueue::late(Millis limit) const {
  if (!stable_) return 1;
  double spared = 0;
  for (std::size_t c = 0; c < classes_.size(); ++c)
    if (mass_[c] > kRareEvent) spared += spared_in_cycles(c, limit.value);
  return late_at_most(limit) - spared / arrivals_;
}

bool PacedQueue::within(Millis limit, double percentile) const {
  const double allowed = 1 - percentile / 100;
  return late_at_most(limit) <= allowed || late(limit) <= allowed;
}

Millis PacedQueue::latency(double percentile) const {
  if (!stable_) return Millis{std::numeric_limits<double>::infinity()};
  const double allowed = 1 - percentile / 100;
  double holds = 2 * classes_.back().latency;
  while (late_at_most(Millis{holds}) > allowed) holds *= 2;
  const auto narrow = [&](auto late_share) {
    double fails = 0;
    while (holds - fails > kLatencyPrecision * holds) {
      const double middle = (holds + fails) / 2;
      (late_share(Millis{middle}) > allowed ? fails : holds) = middle;
    }
  };
  narrow([&](Millis limit) { return late_at_most(limit); });
  narrow([&](Millis limit) { return late(limit); });
  return Millis{holds};
}

}  // namespace partita::verify
