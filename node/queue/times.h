// How long tasks take, learned from their runs: per user and name (or command), GPU model and size
// the mean and its spread. A size that was never run is judged by those that were (an Amdahl law
// through two of them, or the share that does not shrink which the others of this queue have). What
// an owner says counts as one run. Pure.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hw/gpu_model.h"
#include "plan/batch.h"
#include "queue/task.h"

namespace partita::queue {

inline constexpr double kUnknownTimeS = 300;  // of what nobody knows anything
inline constexpr double kUnknownCv = 1;
inline constexpr std::size_t kMaxLearned = 100'000;

struct TimeKey {
  std::string user, name, model;
  int gpcs = 0;
  auto operator<=>(const TimeKey&) const = default;
};
// Welford's: mean and the sum of squared differences from it.
struct TimeStats {
  long runs = 0;
  double mean_s = 0, squares = 0;
  void add(double time_s);
  double cv() const;
  bool operator==(const TimeStats&) const = default;
};

// What a task of this queue is known by: its name, else its command, and how many GPUs it takes.
std::string name_of(const Spec& spec);

class Times {
 public:
  // What is now known under the key.
  const TimeStats& learn(const TimeKey& key, double time_s);
  void restore(const TimeKey& key, const TimeStats& stats) { known_[key] = stats; }

  struct Estimate {
    plan::SizeTimes times;  // 0 where it may not run
    double cv = kUnknownCv;
    bool measured = false;  // some size was run, or its owner said it
  };
  // For the sizes that the task may use on this model.
  Estimate estimate(const Spec& spec, const hw::GpuModel& model) const;
  std::size_t size() const { return known_.size(); }

 private:
  std::map<TimeKey, TimeStats> known_;
};

// The profiles of the model that the task may have, ascending: those it names, with its memory.
// Names none: all plain ones and, where these have too little memory for it, the one of double
// memory; of a task of several GPUs that does not say what memory it needs, the whole GPU.
std::vector<int> profiles_for(const Spec& spec, const hw::GpuModel& model);

}  // namespace partita::queue
