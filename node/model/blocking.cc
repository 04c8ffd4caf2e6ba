#include "model/blocking.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::model {
namespace {

constexpr std::size_t kSamples = 32;    // per class
constexpr double kNeverSeen = 1e-7;     // what happens at fewer dispatches cannot matter
constexpr std::size_t kIntervals = 24;  // grid of interval lengths, geometric

}  // namespace

void BlockingPools::start(const std::vector<SizeClass>& classes, int processes, double load) {
  CHECK(classes.size() >= 2 && processes >= 2);
  classes_ = classes;
  processes_ = processes;
  load_ = load;
  blocking_.assign(classes.size(), {});
  candidates_.resize(classes.size());
  pools_.clear();
  for (const SizeClass& c : classes) {
    for (std::size_t i = 0; i < kSamples; ++i) {
      for (std::size_t p = 1; p <= others(); ++p) pools_.push_back(static_cast<double>(p) * c.pace);
    }
  }
  tabulate_next_classes(load);
}

void BlockingPools::tabulate_next_classes(double load) {
  const std::size_t size = classes_.size();
  next_.assign((kIntervals + 1) * size, 0);
  none_.assign(kIntervals + 1, 0);
  const double ratio = classes_.back().latency / classes_.front().pace;
  for (std::size_t i = 0; i <= kIntervals; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(kIntervals);
    poisson_.reset(load * classes_.front().pace * std::pow(ratio, share));
    double at_least = 1;
    for (std::size_t k = 0; k < size; ++k) {
      const double more = k + 1 < size ? poisson_.tail(classes_[k].last + 1) : 0;
      next_[i * size + k] = at_least - more;
      at_least = more;
    }
    none_[i] = 1 - poisson_.tail(1);
  }
}

void BlockingPools::refine(const std::vector<double>& empty, const std::vector<double>& backlog) {
  const std::size_t size = classes_.size();
  moved_.clear();
  for (auto& list : candidates_) list.clear();
  for (std::size_t j = 0; j < size; ++j) {
    if (empty[j] <= 0) continue;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const double rank = (static_cast<double>(i) + 0.5) / static_cast<double>(kSamples);
      add_followers(j, &pools_[(j * kSamples + i) * others()],
                    empty[j] / static_cast<double>(kSamples), -std::log(rank) / load_);
    }
  }
  // Full batches in a row: the processes end one after the other, a pace apart.
  for (std::size_t p = 1; p <= others(); ++p)
    moved_.push_back(static_cast<double>(p) * classes_.back().pace);
  for (std::size_t k = 0; k < size; ++k) add_moved(k, backlog[k]);
  measure();
  for (std::size_t k = 0; k < size; ++k) resample(k);
}

// Adds what follows one sample of a class; a queue that is empty then stays so for `idle`.
void BlockingPools::add_followers(std::size_t size_class, const double* others_left, double weight,
                                  double idle) {
  const SizeClass& c = classes_[size_class];
  scratch_.assign(others_left, others_left + others());
  scratch_.push_back(c.latency);
  const auto first = std::min_element(scratch_.begin(), scratch_.end());
  const double length = std::max(c.pace, *first);
  std::swap(*first, scratch_.back());  // that process takes the next batch
  scratch_.pop_back();

  const double ratio = classes_.back().latency / classes_.front().pace;
  const double position =
      std::clamp(std::log(length / classes_.front().pace) / std::log(ratio), 0.0, 1.0) *
      static_cast<double>(kIntervals);
  const std::size_t below = std::min(static_cast<std::size_t>(position), kIntervals - 1);
  const double high = position - static_cast<double>(below);
  const std::size_t size = classes_.size();
  const double none = weight * ((1 - high) * none_[below] + high * none_[below + 1]);

  for (const double left : scratch_) moved_.push_back(std::max(0.0, left - length));
  for (std::size_t k = 0; k < size; ++k) {
    double share =
        weight * ((1 - high) * next_[below * size + k] + high * next_[(below + 1) * size + k]);
    if (k == 0) share -= none;
    add_moved(k, share);
  }
  if (none > 0) {
    for (const double left : scratch_) moved_.push_back(std::max(0.0, left - length - idle));
    add_moved(0, none);
  }
}

void BlockingPools::add_moved(std::size_t size_class, double weight) {
  if (weight > kNeverSeen)
    candidates_[size_class].push_back({moved_.size() - others(), weight, size_class});
}

void BlockingPools::measure() {
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    const auto& [first, last, latency, pace] = classes_[k];
    BlockingParts& parts = blocking_[k];
    parts = {};
    double all = 0;
    for (const Candidate& candidate : candidates_[k]) {
      const double* left = &moved_[candidate.others];
      const double wait = std::min(latency, *std::min_element(left, left + others()));
      all += candidate.weight;
      if (wait <= pace * (1 + 1e-9)) continue;
      const double place = (wait - pace) / (latency - pace) * static_cast<double>(kBlockingParts);
      Blocking& part = parts[std::min(static_cast<std::size_t>(place), kBlockingParts - 1)];
      part.share += candidate.weight;
      part.length += candidate.weight * wait;
    }
    for (auto& [share, length] : parts) {
      if (share > 0) length /= share;
      share = all > 0 ? share / all : 0;
    }
  }
}

// Replaces the pool of a class by candidates at equal distances of cumulated weight.
void BlockingPools::resample(std::size_t size_class) {
  const std::vector<Candidate>& list = candidates_[size_class];
  if (list.empty()) return;
  double total = 0;
  for (const Candidate& candidate : list) total += candidate.weight;
  double passed = list[0].weight;
  std::size_t at = 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const double mark = total * (static_cast<double>(i) + 0.5) / static_cast<double>(kSamples);
    while (passed < mark && at + 1 < list.size()) passed += list[++at].weight;
    std::copy_n(&moved_[list[at].others], others(),
                &pools_[(size_class * kSamples + i) * others()]);
  }
}

}  // namespace partita::model
