#include "act/batch/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/parse_number.h"

namespace partita::exec {
namespace {

// $1 is the command, $2 the file of its exit status. The trap keeps the shell alive when its group
// is asked to end, so that the command has its time to.
constexpr const char* kShell =
    "trap : TERM; /bin/sh -c \"$1\"; status=$?; "
    "[ -z \"$2\" ] || echo \"$PARTITA_RUN $status\" > \"$2\"; exit $status";

// A name that is a file name everywhere; the number keeps names apart.
std::string stem(const Script& script, int task) {
  std::string name = script.tasks[static_cast<std::size_t>(task)].name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  return fmt::format("{:04}-{}", task + 1, name);
}

std::string status_path(const Script& script, int task, int attempt, const RunPaths& paths) {
  if (paths.log_dir.empty()) return {};
  return fmt::format("{}/{}.{}.status", paths.log_dir, stem(script, task), attempt);
}

// The value of a variable in the environment of a process, as /proc has it.
std::optional<std::string> variable(const std::string& environment, const std::string& name) {
  const std::string before = '\0' + name + '=';
  const std::size_t found = environment.find(before);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = found + before.size();
  return environment.substr(begin, environment.find('\0', begin) - begin);
}

}  // namespace

ProcessSpec process_of(const Script& script, const StartTask& start, const RunPaths& paths) {
  const ScriptTask& task = script.tasks[static_cast<std::size_t>(start.task)];
  const Visit& visit = script.visits[static_cast<std::size_t>(task.visit)];
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c",         kShell,
               "partita", task.command, status_path(script, start.task, start.attempt, paths)};
  spec.environment = {{"CUDA_VISIBLE_DEVICES", start.device},
                      {"PARTITA_ATTEMPT", fmt::format("{}", start.attempt)},
                      {"PARTITA_PROFILE", visit.place.profile},
                      {"PARTITA_RUN", paths.run},
                      {"PARTITA_TASK", task.name}};
  if (!paths.log_dir.empty())
    spec.log_file = fmt::format("{}/{}.log", paths.log_dir, stem(script, start.task));
  return spec;
}

Attempts find_attempts(const std::string& run) {
  Attempts attempts;
  std::error_code failed_quietly;  // processes come and go while they are listed
  for (std::filesystem::directory_iterator it("/proc", failed_quietly), end; it != end;
       it.increment(failed_quietly)) {
    if (failed_quietly) break;
    const std::string name = it->path().filename();
    const std::optional<int> pid = parse_number<int>(name);
    if (!pid || ::getsid(*pid) != *pid) continue;  // a child of the one that we look for
    std::ifstream file(it->path() / "environ", std::ios::binary);
    const std::string environment = '\0' + std::string(std::istreambuf_iterator<char>(file), {});
    const auto task = variable(environment, "PARTITA_TASK");
    const auto attempt = variable(environment, "PARTITA_ATTEMPT");
    if (variable(environment, "PARTITA_RUN") != run || !task || !attempt) continue;
    attempts[{*task, std::atoi(attempt->c_str())}] = *pid;
  }
  return attempts;
}

std::optional<int> written_status(const Script& script, const StartTask& attempt,
                                  const RunPaths& paths, Files& files) {
  const std::string path = status_path(script, attempt.task, attempt.attempt, paths);
  if (path.empty()) return std::nullopt;
  const Result<std::string> text = files.read(path);
  const std::string before = paths.run + " ";
  if (!text || !text->starts_with(before) || !text->ends_with('\n')) return std::nullopt;
  return parse_number<int>(
      std::string_view(*text).substr(before.size(), text->size() - before.size() - 1));
}

Traces follow(const Script& script, const std::vector<Record>& records, const Attempts& attempts,
              const RunPaths& paths, Processes& processes, Files& files) {
  Traces traces;
  for (const auto& open : open_attempts(records)) {
    const auto& [name, attempt] = open;
    const auto running = attempts.find(open);
    if (running != attempts.end() &&
        processes.adopt(running->second, processes.identity(running->second))) {
      traces.running[open] = running->second;
      continue;
    }
    const auto task = std::ranges::find(script.tasks, name, &ScriptTask::name);
    if (task == script.tasks.end()) continue;
    const auto index = static_cast<int>(task - script.tasks.begin());
    if (const auto status = written_status(script, {index, attempt, {}}, paths, files))
      traces.ended[open] = *status;
  }
  return traces;
}

}  // namespace partita::exec
