#include "queue/store.h"

namespace partita::queue {

Result<Loaded> MemoryStore::load() {
  Loaded loaded;
  loaded.times = times;
  loaded.usage = usage;
  for (const auto& [id, task] : tasks) loaded.tasks.push_back(task);
  loaded.last_id = tasks.empty() ? 0 : tasks.rbegin()->first;
  return loaded;
}

Result<void> MemoryStore::keep(const Keep& changes) {
  if (fault) {
    if (auto fine = fault(); !fine) return fine;
  }
  for (const Task& task : changes.tasks) tasks[task.id] = task;
  for (const Run& run : changes.runs) all_runs[{run.task, run.attempt}] = run;
  for (const auto& [key, stats] : changes.times) times[key] = stats;
  for (const auto& [user, used] : changes.usage) usage[user] = used;
  return {};
}

Result<std::vector<Run>> MemoryStore::runs(long task) {
  std::vector<Run> found;
  for (const auto& [key, run] : all_runs) {
    if (key.first == task) found.push_back(run);
  }
  return found;
}

}  // namespace partita::queue
