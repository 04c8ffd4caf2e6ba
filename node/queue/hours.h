// Hours: the tasks of a queue that may wait for cheap or clean hours, and until when they do
// (planners/batch/cheap_hours.h). A task that is let go is planned as all others are, and never
// comes back here. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planners/batch/cheap_hours.h"
#include "planners/batch/live_machine.h"
#include "queue/task.h"

namespace partita::queue {

using Nanos = plan::Nanos;

class Hours {
 public:
  // Without a tariff nobody waits.
  explicit Hours(plan::Tariff tariff = {}) : tariff_(std::move(tariff)) {}

  // A task that waits for its turn: it is held here where it is flexible and has a deadline.
  void came(const Task& task);
  void forget(long task);
  bool holds(long task) const { return held_.contains(task); }
  const std::set<long>& held() const { return held_; }
  const plan::Tariff& tariff() const { return tariff_; }

  // Lets go whose time has come, and who has no time to wait; true: somebody. `look.tasks` are
  // those of the held ones that could run; `hurried` are let go at once.
  bool choose(const planners::batch::CheapHours& look, const std::vector<long>& hurried);
  // When to choose again at the latest; none: nobody waits.
  std::optional<Nanos> next() const;

  struct Later {
    double begin_s = 0, end_s = 0;
    bool operator==(const Later&) const = default;
  };
  std::optional<Later> later(long task) const;
  // "waits until 2026-11-27 02:00 UTC: a kWh costs 0.12 then and 0.35 now"
  std::string why(const Later& later, double now_s) const;

 private:
  plan::Tariff tariff_;
  std::set<long> held_;
  std::map<long, Later> later_;  // of the last choice
  double next_s_ = 0;
};

// How long it may take on the instances where it is fastest, on whatever of these GPUs, as far as
// that is known; the moment before which it has to begin for its deadline is left to the caller.
struct Fastest {
  double length_s = 0;
  int profile = 0, per_gpu = 1, slices = 0;
};
std::optional<Fastest> fastest(const planners::batch::LiveTask& task,
                               const std::vector<hw::GpuModel>& models);

}  // namespace partita::queue
