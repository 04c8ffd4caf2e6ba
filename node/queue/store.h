// The door to what a queue keeps on disk. keep() is all or nothing, and durable once it returns:
// neither a kill nor a crash of the machine loses it. Implementations: store/ (SQLite) and
// MemoryStore.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "queue/queue.h"

namespace partita::queue {

class QueueStore {
 public:
  virtual ~QueueStore() = default;
  // Tasks that have not ended, and as many of the last that have as a queue holds (kHeldTasks).
  virtual Result<Loaded> load() = 0;
  virtual Result<void> keep(const Keep& changes) = 0;
  virtual Result<std::vector<Run>> runs(long task) = 0;
};

inline constexpr long kHeldTasks = 20'000;  // that have ended

// In memory, for tests and simulations; outlives the queue as a disk does.
class MemoryStore final : public QueueStore {
 public:
  Result<Loaded> load() override;
  Result<void> keep(const Keep& changes) override;
  Result<std::vector<Run>> runs(long task) override;

  std::map<long, Task> tasks;
  std::map<std::pair<long, int>, Run> all_runs;
  std::map<TimeKey, TimeStats> times;
  std::map<std::string, Usage> usage;
  std::function<Result<void>()> fault = {};  // asked before anything is kept
};

}  // namespace partita::queue
