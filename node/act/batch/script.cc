#include "act/batch/script.h"

#include <fmt/format.h>

#include "base/append.h"
#include "base/hash.h"

namespace partita::exec {

std::string place_text(const Visit& visit) {
  return fmt::format("{}@{}", visit.place.profile, visit.place.start);
}

std::string fingerprint(const Script& script) {
  std::string text;
  for (const ScriptGpu& gpu : script.gpus) {
    append(text, "gpu {} {}\n", gpu.device, gpu.model);
    for (const Change& change : gpu.changes)
      append(text, "change {} {}\n", change.visit, change.create);
  }
  for (const Visit& visit : script.visits) {
    append(text, "visit {} {} {} {}\n", visit.gpu, place_text(visit),
                   joined(visit.tasks, ","), joined(visit.after, ","));
  }
  for (const ScriptTask& task : script.tasks) {
    append(text, "task {} {} {} {} {} {}\n", task.name.size(), task.name, task.visit,
                   joined(task.after, ","), task.command.size(), task.command);
  }
  return fmt::format("{:016x}", text_hash(text));
}

}  // namespace partita::exec
