#include "queue/store.h"

#include <algorithm>
#include <ranges>

namespace partita::queue {

Result<Loaded> MemoryStore::load() {
  Loaded loaded;
  loaded.times = times;
  loaded.usage = usage;
  for (const auto& [id, task] : tasks) {
    if (!is_over(task.state)) loaded.tasks.push_back(task);
  }
  loaded.recent = *ended({kRecentTasks});
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

Result<std::optional<Task>> MemoryStore::task(long id) {
  const auto found = tasks.find(id);
  return found == tasks.end() ? std::nullopt : std::optional(found->second);
}

Result<std::vector<Task>> MemoryStore::ended(const Past& past) {
  std::vector<Task> last;
  for (const auto& [id, task] : tasks | std::views::reverse) {
    if (is_over(task.state) && std::ssize(last) < past.last) last.push_back(task);
  }
  std::ranges::reverse(last);
  std::erase_if(last, [&](const Task& task) { return task.id <= past.after; });
  if (std::ssize(last) > past.most) last.resize(static_cast<std::size_t>(past.most));
  return last;
}

}  // namespace partita::queue
