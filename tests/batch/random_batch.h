// Random batches for tests and benchmarks, meaner than any generator of workloads: GPUs of several
// models at once that share reconfigurers or do not, tasks that do not fit small sizes or whole
// models, times that grow with the size, ties, microseconds beside days; on request releases,
// deadlines, priorities and predecessors.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "plan/batch.h"

namespace partita::batch_test {

// What a random batch may be.
struct Shape {
  int most_tasks = 12;                 // 0 to so many, rarely 0
  int most_gpus = 3;                   // 1 to so many
  bool timed = false;                  // releases, deadlines, predecessors, priorities
  bool extreme = true;                 // microseconds and days too
  std::vector<std::string> gpus = {};  // catalogue names to choose from; empty = all
};

// One batch at a time; the same stream gives the same batch.
class RandomBatch {
 public:
  RandomBatch(Rng& rng, const Shape& shape) : rng_(rng), shape_(shape) {}

  plan::BatchProblem make() {
    choose_gpus();
    if (chance(3)) problem_.reconfigurer.of = plan::Reconfigurer::Of::gpu;
    problem_.reconfigurer.gpus_per_node = 1 + below(shape_.most_gpus);
    const int count = chance(50) ? 0 : 1 + below(shape_.most_tasks);
    least_ = chance(2) ? 90 : 1;
    scale_ = shape_.extreme && chance(10) ? std::pow(10, -6 + below(11)) : 1;
    whole_ = chance(4);
    for (int t = 0; t < count; ++t) problem_.tasks.push_back(task(t));
    return std::move(problem_);
  }

 private:
  int below(int bound) { return static_cast<int>(rng_.below(static_cast<std::uint64_t>(bound))); }
  bool chance(int one_in) { return below(one_in) == 0; }

  void choose_gpus() {
    std::vector<std::string> names = shape_.gpus;
    if (names.empty())
      for (const hw::GpuModel& gpu : hw::builtin_catalogue().gpus) names.push_back(gpu.name);
    const int gpus = 1 + below(shape_.most_gpus);
    for (int g = 0; g < gpus; ++g) {
      const int known = static_cast<int>(problem_.models.size());
      if (known > 0 && (names.empty() || !chance(3))) {
        problem_.gpus.push_back(below(known));
        continue;
      }
      const auto chosen = names.begin() + below(static_cast<int>(names.size()));
      problem_.models.push_back(*hw::builtin_catalogue().find(*chosen));
      problem_.gpus.push_back(known);
      names.erase(chosen);
    }
  }

  plan::Nanos time(double seconds) const {
    const double scaled = whole_ ? std::ceil(seconds) : seconds;
    return std::max<plan::Nanos>(1, plan::nanos(Seconds{scaled * scale_}));
  }

  // Fits somewhere.
  plan::Task task(int index) {
    plan::Task task;
    task.name = "t" + std::to_string(index);
    const double base = least_ + (100 - least_) * rng_.uniform();
    const int kind = below(8);
    while (true) {
      task.times.clear();
      bool fits = false;
      for (const hw::GpuModel& model : problem_.models) {
        task.times.push_back(chance(8) ? plan::SizeTimes{} : times(model, base, kind));
        for (const plan::Nanos t : task.times.back().by_gpcs) fits = fits || t > 0;
      }
      if (fits) break;
    }
    if (shape_.timed) add_wishes(task, index, base);
    return task;
  }

  // Kinds: 0 not monotone, 1 the same on all sizes, 2 needs memory, 3 one size only, others:
  // between no speedup and more than the slices account for.
  plan::SizeTimes times(const hw::GpuModel& model, double base, int kind) {
    std::vector<int> sizes;
    for (const int p : hw::plain_profiles(model))
      sizes.push_back(model.profiles[static_cast<std::size_t>(p)].gpcs);
    const double exponent = 1.25 * rng_.uniform();
    const double speed = 0.5 + rng_.uniform();
    const int chosen = below(static_cast<int>(sizes.size()));
    plan::SizeTimes result;
    for (int k = 0; k < static_cast<int>(sizes.size()); ++k) {
      const int gpcs = sizes[static_cast<std::size_t>(k)];
      if ((kind == 2 && k < chosen) || (kind == 3 && k != chosen)) continue;
      double seconds = base * speed / std::pow(gpcs, exponent);
      if (kind == 0) seconds = base * (0.2 + rng_.uniform());
      if (kind == 1) seconds = base;
      result[gpcs] = time(seconds);
    }
    return result;
  }

  void add_wishes(plan::Task& task, int index, double base) {
    if (chance(3)) task.release = time(3 * base * rng_.uniform());
    if (chance(3)) task.deadline = task.release + time(10 * base * rng_.uniform());
    if (chance(3)) task.priority = 0.1 + 10 * rng_.uniform();
    for (int t = 0; t < index; ++t)
      if (chance(2 * index)) task.after.push_back("t" + std::to_string(t));
  }

  Rng& rng_;
  const Shape& shape_;
  plan::BatchProblem problem_;
  double least_ = 1, scale_ = 1;
  bool whole_ = false;
};

inline plan::BatchProblem random_batch(Rng& rng, const Shape& shape) {
  return RandomBatch(rng, shape).make();
}

}  // namespace partita::batch_test
