#include "model/batch_chain.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace partita::model {
namespace {

constexpr int kRounds = 6;              // of alternating classes and blocking
constexpr double kRareBlocking = 1e-4;  // parts with a smaller share are left out
constexpr double kNegligible = 0.02;    // of the share of late requests that matters

// The positive root of load * (e^x - 1) = x: leftovers fall as e^-x per request (Cramer-Lundberg;
// the batch size cancels). Newton from above, where the convex function makes every step safe.
double decay_rate(double utilisation) {
  double x = std::min(2 * (1 - utilisation) / utilisation, 1 - 2 * std::log(utilisation));
  for (int i = 0; i < 30; ++i) {
    const double power = std::exp(x);
    const double step = (utilisation * (power - 1) - x) / (utilisation * power - 1);
    x -= step;
    if (step <= 1e-10 * x) break;
  }
  return x;
}

double clamped(double x) { return std::clamp(x, 0.0, 1.0); }

}  // namespace

BatchChain::BatchChain(const BatchQueue& queue, double share)
    : processes_(queue.processes), share_(share) {
  CHECK(queue.processes >= 1 && !queue.curve.steps.empty());
  int first = 1;
  for (const auto& [batch, latency] : queue.curve.steps) {
    CHECK(batch >= first && latency.value > 0);
    classes_.push_back({first, batch, latency.value, latency.value / queue.processes});
    first = batch + 1;
  }
}

double BatchChain::time_to_fall(double logarithm) const {
  return classes_.back().pace * (1 + logarithm / (decay_ * full()));
}

void BatchChain::solve(double load) {
  const bool blocks = processes_ > 1 && classes_.size() > 1 && load > 0;
  blocking_.assign(classes_.size(), {});
  if (blocks) pools_.start(classes_, processes_, load);
  for (int round = 0;; ++round) {
    set_intervals(load);
    choose_grid(load);
    fill_matrix();
    solve_matrix();
    if (!blocks || round == kRounds) break;
    refine_blocking();
  }
  weigh_intervals();
  count_requests();
}

void BatchChain::refine_blocking() {
  const std::size_t size = classes_.size();
  const Poisson& arrivals = unblocked_full().arrivals;
  backlog_.assign(size, 0);
  for (std::size_t i = size; i < stationary_.size(); ++i) {
    const int left = static_cast<int>(i - size + 1) * spacing_;
    double at_least = 1;
    for (std::size_t k = 0; k < size; ++k) {
      const double more = k + 1 < size ? arrivals.tail(classes_[k].last + 1 - left) : 0;
      backlog_[k] += stationary_[i] * (at_least - more);
      at_least = more;
    }
  }
  pools_.refine(stationary_, backlog_);
  blocking_ = pools_.blocking();
}

// The unblocked intervals of all classes come first, so that later rounds find them tabulated.
void BatchChain::set_intervals(double load) {
  const std::size_t size = classes_.size();
  std::size_t used = size;
  intervals_.resize(std::max(intervals_.size(), size * (1 + kBlockingParts)));
  const auto set = [&](std::size_t index, std::size_t j, const Blocking& part) {
    Interval& interval = intervals_[index];
    interval.size_class = j;
    interval.length = part.length;
    interval.share = part.share;
    interval.arrivals.reset(load * part.length);
  };
  for (std::size_t j = 0; j < size; ++j) {
    double unblocked = 1;
    for (const Blocking& part : blocking_[j]) {
      if (part.share < kRareBlocking) continue;
      set(used++, j, part);
      unblocked -= part.share;
    }
    set(j, j, {std::max(0.0, unblocked), classes_[j].pace});
  }
  used_ = used;
}

// The second slowest mode of the leftovers falls as exp(-r * sqrt(2 pi / B)), so four times sqrt(B)
// requests further only the slowest, geometric one is left.
void BatchChain::choose_grid(double load) {
  decay_ = decay_rate(std::max(1e-6, load * classes_.back().pace / full()));
  const double root = std::sqrt(full());
  spacing_ = std::max(1, static_cast<int>(root / 4));
  cells_ = static_cast<int>(4 * root / spacing_) + 6;
  if (unblocked_full().arrivals.tail(full() + 1) < kNegligible * share_) cells_ = 1;
}

// Adds the probabilities of every next state when `left` requests wait at a dispatch. A queue
// between two grid points goes to both, which makes the probability of a point a second difference
// of excesses.
void BatchChain::add_transitions(const Poisson& arrivals, int left, double weight,
                                 double* row) const {
  const std::size_t last = classes_.size() - 1;
  double at_least = 1;
  for (std::size_t k = 0; k < last; ++k) {
    const double more = arrivals.tail(classes_[k].last + 1 - left);
    row[k] += weight * (at_least - more);
    at_least = more;
  }
  if (cells_ == 1) {
    row[last] += weight * at_least;
    return;
  }
  const int count = full() - left;
  double here = arrivals.excess(count);
  double next = arrivals.excess(count + spacing_);
  double above = (here - next) / spacing_;  // probability of a higher point
  row[last] += weight * (at_least - above);
  for (int i = 1; i < cells_; ++i) {
    here = next;
    next = arrivals.excess(count + (i + 1) * spacing_);
    const double further = (here - next) / spacing_;
    row[last + static_cast<std::size_t>(i)] += weight * (above - further);
    above = further;
  }
  row[last + static_cast<std::size_t>(cells_)] += weight * above;
}

void BatchChain::fill_matrix() {
  const std::size_t size = states();
  const std::size_t last = classes_.size() - 1;
  matrix_.assign(size * size, 0);
  for (const Interval& interval : used_intervals())
    add_transitions(interval.arrivals, 0, interval.share, &matrix_[interval.size_class * size]);
  const Poisson& arrivals = unblocked_full().arrivals;
  for (int i = 1; i < cells_; ++i) {
    add_transitions(arrivals, i * spacing_, 1,
                    &matrix_[(last + static_cast<std::size_t>(i)) * size]);
  }
  if (cells_ == 1) return;
  // The state beyond the border is a geometric mixture, of which only its lowest points can come
  // back.
  const double ratio = std::exp(-decay_ * spacing_);
  double weight = 1 - ratio;
  for (int i = cells_; weight > 1e-9; ++i, weight *= ratio) {
    const int left = i * spacing_;
    if (left + arrivals.first() - full() >= cells_ * spacing_) break;
    add_transitions(arrivals, left, weight, &matrix_[(size - 1) * size]);
  }
}

// Grassmann, Taksar and Heyman: elimination without subtractions, states removed from the last.
void BatchChain::solve_matrix() {
  const std::size_t size = states();
  std::size_t start = size - 1;  // states below it are never reached
  for (; start > 0; --start) {
    const std::size_t k = start;
    double* row = &matrix_[k * size];
    double leave = 0;
    for (std::size_t j = 0; j < k; ++j) leave += row[j];
    if (leave <= 0) break;
    for (std::size_t i = 0; i < k; ++i) {
      double* other = &matrix_[i * size];
      if (other[k] <= 0) {
        other[k] = 0;
        continue;
      }
      other[k] /= leave;
      for (std::size_t j = 0; j < k; ++j) other[j] += other[k] * row[j];
    }
  }
  stationary_.assign(size, 0);
  stationary_[start] = 1;
  for (std::size_t k = start + 1; k < size; ++k) {
    for (std::size_t i = start; i < k; ++i)
      stationary_[k] += stationary_[i] * matrix_[i * size + k];
  }
  const double sum = std::accumulate(stationary_.begin(), stationary_.end(), 0.0);
  for (double& p : stationary_) p /= sum;
}

// Distributes the stationary probabilities of the states over the intervals that follow them.
// Blocking ends when full batches follow each other, so what is left waiting sees the unblocked
// interval.
void BatchChain::weigh_intervals() {
  for (Interval& interval : used_intervals()) {
    interval.weights.assign(1, stationary_[interval.size_class] * interval.share);
    interval.border = 0;
  }
  if (cells_ == 1) return;
  const auto overflow = stationary_.begin() + static_cast<std::ptrdiff_t>(classes_.size());
  Interval& full_batch = unblocked_full();
  full_batch.weights.insert(full_batch.weights.end(), overflow, stationary_.end() - 1);
  full_batch.border = stationary_.back();
}

// Total weight from grid point `index` on.
double BatchChain::weight_from(const Interval& interval, int index) const {
  const int size = static_cast<int>(interval.weights.size());
  if (index >= size) {
    return interval.border > 0 ? interval.border * std::exp(-decay_ * spacing_ * (index - size))
                               : 0;
  }
  return std::accumulate(interval.weights.begin() + index, interval.weights.end(), interval.border);
}

// Weighted expectation of how many of the arrivals stand behind the first `count` of the queue.
double BatchChain::weighted_excess(const Interval& interval, const Poisson& arrivals,
                                   int count) const {
  const int size = static_cast<int>(interval.weights.size());
  const int begin = std::max(0, (count - arrivals.last()) / spacing_);
  const int end = (count + spacing_ - 1) / spacing_;  // from there on everyone stands behind
  double sum = arrivals.mean() * weight_from(interval, end);
  for (int i = begin; i < std::min(end, size); ++i)
    sum += interval.weights[static_cast<std::size_t>(i)] * arrivals.excess(count - i * spacing_);
  if (interval.border > 0 && end > size) {
    const double ratio = std::exp(-decay_ * spacing_);
    const int from = std::max(begin, size);
    double weight = weight_from(interval, from) * (1 - ratio);
    for (int i = from; i < end; ++i, weight *= ratio)
      sum += weight * arrivals.excess(count - i * spacing_);
  }
  return sum;
}

void BatchChain::count_requests() {
  const std::size_t size = classes_.size();
  joining_.assign(used_ * size, 0);
  leftover_next_.assign(size, 0);
  idle_ = 0;
  requests_ = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    Interval& interval = intervals_[i];
    idle_ += interval.weights[0] * (1 - interval.arrivals.tail(1));
    requests_ += interval.arrivals.mean() * weight_from(interval, 0);
    count_joining(interval, &joining_[i * size]);
  }
  requests_ += idle_;

  // A leftover leaves with the next dispatch that has room for it; assumed independent of how long
  // it has waited.
  const Interval& interval = unblocked_full();
  const int limit = (full() + spacing_ - 1) / spacing_;
  double sum = 0;
  for (int i = 1; i < limit; ++i) {
    const int left = i * spacing_;
    const double weight = left * (weight_from(interval, i) - weight_from(interval, i + 1));
    double at_least = 1;
    for (std::size_t k = 0; k < size; ++k) {
      const double more = k + 1 < size ? interval.arrivals.tail(classes_[k].last + 1 - left) : 0;
      leftover_next_[k] += weight * (at_least - more);
      at_least = more;
    }
    sum += weight;
  }
  const double certain = full() * weight_from(interval, limit) + 1e-30;
  leftover_next_.back() += certain;
  for (double& p : leftover_next_) p /= sum + certain;
}

// Requests of the interval by the class of batch in which they leave, for queues that fit into one
// batch; the expected arrivals when a ... b of them come are mean * P(a - 1 ... b - 1).
void BatchChain::count_joining(Interval& interval, double* joining) {
  const Poisson& arrivals = interval.arrivals;
  const int limit = (full() + spacing_ - 1) / spacing_;
  interval.joining_full = arrivals.mean() * weight_from(interval, limit);
  for (int i = 0; i < limit; ++i) {
    const double requests =
        arrivals.mean() * (weight_from(interval, i) - weight_from(interval, i + 1));
    if (requests <= 0) continue;
    const int left = i * spacing_;
    double at_least = 1;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      const double more = arrivals.tail(classes_[k].last - left);
      joining[k] += requests * (at_least - more);
      at_least = more;
    }
    interval.joining_full += requests * at_least;
  }
}

double BatchChain::late(double t) {
  double count = t < shortest() ? idle_ : 0;
  for (std::size_t i = 0; i < used_; ++i) {
    count += on_time(i, t);
    if (intervals_[i].joining_full < 1e-5 * share_ * requests_) continue;  // nobody waits longer
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      if (leftover_next_[k] > 1e-3)
        count += leftover_next_[k] * overtime(intervals_[i], t - classes_[k].latency);
    }
  }
  return count / requests_;
}

// Requests that leave with the dispatch at the end of their interval and take longer than t.
double BatchChain::on_time(std::size_t index, double t) {
  const Interval& interval = intervals_[index];
  const auto early = [&](const SizeClass& c) {  // share of the interval in which arrivals are late
    return clamped(1 - (t - c.latency) / interval.length);
  };
  double count = 0;
  for (std::size_t k = 0; k < classes_.size(); ++k)
    count += joining_[index * classes_.size() + k] * early(classes_[k]);
  const double share = early(classes_.back());
  if (share <= 0 || interval.joining_full <= 0) return count;
  partial_.reset(share * interval.arrivals.mean());
  return count + interval.joining_full * share - weighted_excess(interval, partial_, full());
}

// Requests that wait for full batches to be dispatched before theirs, and longer than `slack`
// before their own.
double BatchChain::overtime(const Interval& interval, double slack) {
  const double pace = classes_.back().pace;
  const double turns = std::max(1.0, std::floor((slack - interval.length) / pace) + 1);
  if (turns * full() > 1e9) return 0;
  const int count = static_cast<int>(turns) * full();
  const double early = clamped(1 - (slack - turns * pace) / interval.length);
  if (early >= 1) return weighted_excess(interval, interval.arrivals, count);
  partial_.reset(early * interval.arrivals.mean());
  return weighted_excess(interval, partial_, count) -
         weighted_excess(interval, partial_, count + full()) +
         weighted_excess(interval, interval.arrivals, count + full());
}

}  // namespace partita::model
