#include "exec/batch/script.h"

#include <fmt/format.h>

#include <iterator>

#include "base/hash.h"

namespace partita::exec {

std::string place_text(const Visit& visit) {
  return fmt::format("{}@{}", visit.profile, visit.start);
}

std::string fingerprint(const Script& script) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const ScriptGpu& gpu : script.gpus) {
    fmt::format_to(out, "gpu {} {}\n", gpu.device, gpu.model);
    for (const Change& change : gpu.changes)
      fmt::format_to(out, "change {} {}\n", change.visit, change.create);
  }
  for (const Visit& visit : script.visits) {
    fmt::format_to(out, "visit {} {} {} {}\n", visit.gpu, place_text(visit),
                   fmt::join(visit.tasks, ","), fmt::join(visit.after, ","));
  }
  for (const ScriptTask& task : script.tasks) {
    fmt::format_to(out, "task {} {} {} {} {} {}\n", task.name.size(), task.name, task.visit,
                   fmt::join(task.after, ","), task.command.size(), task.command);
  }
  return fmt::format("{:016x}", text_hash(text));
}

}  // namespace partita::exec
