#include "model/batch_chain.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::model {
namespace {

constexpr double kNegligible = 0.02;  // of the share of late requests that matters

// The positive root of load * (e^x - 1) = x: leftovers fall as e^-x per request (Cramer-Lundberg; the batch size
// cancels). Newton from above, where the convex function makes every step safe.
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

BatchChain::BatchChain(const BatchQueue& queue, double share) : share_(share) {
  CHECK(queue.processes >= 1 && !queue.curve.steps.empty());
  int first = 1;
  for (const auto& [batch, latency] : queue.curve.steps) {
    CHECK(batch >= first && latency.value > 0);
    classes_.push_back({first, batch, latency.value, latency.value / queue.processes});
    first = batch + 1;
  }
  arrivals_.resize(classes_.size());
  leftovers_.resize(classes_.size());
}

double BatchChain::time_to_fall(double factor) const {
  return classes_.back().pace * (1 + std::log(factor) / (decay_ * full()));
}

void BatchChain::solve(double load) {
  for (std::size_t j = 0; j < classes_.size(); ++j) arrivals_[j].reset(load * classes_[j].pace);
  choose_grid(load);
  fill_matrix();
  solve_matrix();
  count_requests();
}

// The second slowest mode of the leftovers falls as exp(-r * sqrt(2 pi / B)), so four times sqrt(B) requests further
// only the slowest, geometric one is left.
void BatchChain::choose_grid(double load) {
  decay_ = decay_rate(std::max(1e-6, load * classes_.back().pace / full()));
  const double root = std::sqrt(full());
  spacing_ = std::max(1, static_cast<int>(root / 4));
  cells_ = static_cast<int>(4 * root / spacing_) + 6;
  if (arrivals_.back().tail(full() + 1) < kNegligible * share_) cells_ = 1;
}

// Adds the probabilities of every next state when `left` requests wait at a dispatch. A queue between two grid
// points goes to both, which makes the probability of a point a second difference of excesses.
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
  for (std::size_t j = 0; j < last; ++j) add_transitions(arrivals_[j], 0, 1, &matrix_[j * size]);
  const Poisson& arrivals = arrivals_.back();
  for (int i = 0; i < cells_; ++i) {
    add_transitions(arrivals, i * spacing_, 1,
                    &matrix_[(last + static_cast<std::size_t>(i)) * size]);
  }
  if (cells_ == 1) return;
  // The state beyond the border is a geometric mixture, of which only its lowest points can come back.
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
}

// Total weight of the leftovers from grid point `index` on.
double BatchChain::weight_from(const Leftovers& left, int index) const {
  const int size = static_cast<int>(left.weights.size());
  if (index >= size)
    return left.border > 0 ? left.border * std::exp(-decay_ * spacing_ * (index - size)) : 0;
  double sum = left.border;
  for (int i = size; i-- > index;) sum += left.weights[static_cast<std::size_t>(i)];
  return sum;
}

// Sum over the leftovers of weight * E[arrivals that stand behind the first `count` of the queue].
double BatchChain::weighted_excess(const Leftovers& left, const Poisson& arrivals,
                                   int count) const {
  const int size = static_cast<int>(left.weights.size());
  const int begin = std::max(0, (count - arrivals.last()) / spacing_);
  const int end = (count + spacing_ - 1) / spacing_;  // from there on everyone stands behind
  double sum = arrivals.mean() * weight_from(left, end);
  for (int i = begin; i < std::min(end, size); ++i)
    sum += left.weights[static_cast<std::size_t>(i)] * arrivals.excess(count - i * spacing_);
  if (left.border > 0 && end > size) {
    const double ratio = std::exp(-decay_ * spacing_);
    const int from = std::max(begin, size);
    double weight = weight_from(left, from) * (1 - ratio);
    for (int i = from; i < end; ++i, weight *= ratio)
      sum += weight * arrivals.excess(count - i * spacing_);
  }
  return sum;
}

void BatchChain::count_requests() {
  const std::size_t size = classes_.size();
  const auto cells = static_cast<std::size_t>(cells_);
  for (std::size_t j = 0; j + 1 < size; ++j) leftovers_[j] = {{stationary_[j]}, 0};
  leftovers_.back().weights.assign(
      stationary_.begin() + static_cast<std::ptrdiff_t>(size - 1),
      stationary_.begin() + static_cast<std::ptrdiff_t>(size - 1 + cells));
  leftovers_.back().border = cells_ == 1 ? 0 : stationary_.back();

  joining_.assign(size * size, 0);
  joining_full_.assign(size, 0);
  leftover_next_.assign(size, 0);
  idle_ = 0;
  requests_ = 0;
  for (std::size_t j = 0; j < size; ++j) {
    const Poisson& arrivals = arrivals_[j];
    const Leftovers& left = leftovers_[j];
    idle_ += left.weights[0] * (1 - arrivals.tail(1));
    requests_ += arrivals.mean() * weight_from(left, 0);
    const int limit = (full() + spacing_ - 1) / spacing_;
    for (int i = 0; i < limit; ++i) {
      const double weight = weight_from(left, i) - weight_from(left, i + 1);
      const int r = i * spacing_;
      for (std::size_t k = 0; k < size; ++k) {
        const SizeClass& next = classes_[k];
        joining_[j * size + k] += weight * arrivals.mean() *
                                  (arrivals.tail(next.first - 1 - r) - arrivals.tail(next.last - r));
        if (j + 1 == size)
          leftover_next_[k] += weight * r * (arrivals.tail(next.first - r) -
                                             (k + 1 == size ? 0 : arrivals.tail(next.last + 1 - r)));
      }
      joining_full_[j] += weight * arrivals.mean() * arrivals.tail(full() - r);
    }
    joining_full_[j] += arrivals.mean() * weight_from(left, limit);
  }
  leftover_next_[size - 1] += full() * weight_from(leftovers_.back(), (full() + spacing_ - 1) / spacing_);
  double sum = 0;
  for (double p : leftover_next_) sum += p;
  if (sum <= 0) leftover_next_[size - 1] = sum = 1;
  for (double& p : leftover_next_) p /= sum;
  requests_ += idle_;
}

double BatchChain::late(double t) {
  double count = t < shortest() ? idle_ : 0;
  for (std::size_t j = 0; j < classes_.size(); ++j) {
    count += on_time(j, t);
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      if (leftover_next_[k] > 1e-3) count += leftover_next_[k] * overtime(j, t - classes_[k].latency);
    }
  }
  return count / requests_;
}

double BatchChain::on_time(std::size_t j, double t) {
  const std::size_t size = classes_.size();
  const double pace = classes_[j].pace;
  double count = 0;
  for (std::size_t k = 0; k < size; ++k)
    count += joining_[j * size + k] * clamped(1 - (t - classes_[k].latency) / pace);
  const double early = clamped(1 - (t - classes_.back().latency) / pace);
  if (early > 0) {
    partial_.reset(early * arrivals_[j].mean());
    count += joining_full_[j] * early - weighted_excess(leftovers_[j], partial_, full());
  }
  return count;
}

double BatchChain::overtime(std::size_t j, double slack) {
  const double pace = classes_[j].pace;
  const double turns = std::max(1.0, std::floor((slack - pace) / classes_.back().pace) + 1);
  if (turns * full() > 1e9) return 0;
  const int count = static_cast<int>(turns) * full();
  const Leftovers& left = leftovers_[j];
  const double early = clamped(1 - (slack - turns * classes_.back().pace) / pace);
  if (early >= 1) return weighted_excess(left, arrivals_[j], count);
  partial_.reset(early * arrivals_[j].mean());
  return weighted_excess(left, partial_, count) - weighted_excess(left, partial_, count + full()) +
         weighted_excess(left, arrivals_[j], count + full());
}

}  // namespace partita::model
