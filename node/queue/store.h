// The door to what a queue keeps on disk. keep() is all or nothing, and durable once it returns:
// neither a kill nor a crash of the machine loses it. Implementations: store/ (SQLite) and
// MemoryStore.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "queue/queue.h"

namespace partita::queue {

// Of the last so many that have ended those after an id, the first so many of them.
struct Past {
  long last = 0, after = 0, most = 1'000'000'000;
};

class QueueStore {
 public:
  virtual ~QueueStore() = default;
  // What goes on: tasks that have not ended, kRecentTasks of the last that have, and what was
  // learned. So it costs what is live, however many have ended.
  virtual Result<Loaded> load() = 0;
  virtual Result<void> keep(const Keep& changes) = 0;
  virtual Result<std::vector<Run>> runs(long task) = 0;
  // Nothing: there is none of that id.
  virtual Result<std::optional<Task>> task(long id) = 0;
  // By id.
  virtual Result<std::vector<Task>> ended(const Past& past) = 0;
};

inline constexpr long kRecentTasks = 200;

// In memory, for tests and simulations; outlives the queue as a disk does.
class MemoryStore final : public QueueStore {
 public:
  Result<Loaded> load() override;
  Result<void> keep(const Keep& changes) override;
  Result<std::vector<Run>> runs(long task) override;
  Result<std::optional<Task>> task(long id) override;
  Result<std::vector<Task>> ended(const Past& past) override;

  std::map<long, Task> tasks;
  std::map<std::pair<long, int>, Run> all_runs;
  std::map<TimeKey, TimeStats> times;
  std::map<std::string, Usage> usage;
  std::function<Result<void>()> fault = {};  // asked before anything is kept
};

}  // namespace partita::queue
