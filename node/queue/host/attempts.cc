#include "queue/host/attempts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/boot.h"
#include "base/descriptor.h"
#include "base/parse_number.h"

namespace partita::queue {
namespace {

constexpr const char* kVariable = "PARTITA_QUEUE_ATTEMPT";
constexpr const char* kSaves = " saves";  // behind the tag of the attempt
constexpr int kClaimed = 75;

// $1 is the command, $2 the claim, $3 the file of the status, $4 what it begins with. The trap
// keeps the shell alive when its group is asked to end, so that the command has its time to. On a
// full disk the status waits for room, as long as the claim is there.
constexpr const char* kShell =
    "set -C; true 2>/dev/null > \"$2\" || exit 75; set +C; "
    "trap : TERM; /bin/sh -c \"$1\"; status=$?; "
    "until { echo \"$4 $status\" > \"$3.part\" && mv \"$3.part\" \"$3\"; } 2>/dev/null; do "
    "[ -e \"$2\" ] || break; sleep 1; done; exit $status";

}  // namespace

Attempts::Attempts(Processes& processes, Files& files, std::string folder)
    : processes_(processes), files_(files), folder_(std::move(folder)), boot_(boot_of(files)) {}

std::string Attempts::log_path(long task) const { return fmt::format("{}/{}.log", folder_, task); }

std::string Attempts::path(const Task& task, const char* kind) const {
  return fmt::format("{}/{}.{}.{}", folder_, task.id, task.attempts, kind);
}

std::string Attempts::tag(const Task& task) const {
  return fmt::format("{}:{}.{}", folder_, task.id, task.attempts);
}

std::map<std::string, std::string> Attempts::environment(const Task& task) const {
  std::map<std::string, std::string> all = {{"PARTITA_TASK", fmt::format("{}", task.id)},
                                            {"PARTITA_ATTEMPT", fmt::format("{}", task.attempts)},
                                            {"PARTITA_ARRAY_INDEX", fmt::format("{}", task.index)}};
  std::string devices;
  for (const Place& place : task.places) devices += (devices.empty() ? "" : ",") + place.device;
  all["CUDA_VISIBLE_DEVICES"] = devices;
  if (!task.places.empty()) all["PARTITA_PROFILE"] = task.places.front().profile;
  return all;
}

Result<Began> Attempts::start(const Task& task) {
  ProcessSpec spec;
  spec.argv = {"/bin/sh",
               "-c",
               kShell,
               "partita",
               task.spec.command,
               path(task, "claim"),
               path(task, "status"),
               tag(task)};
  spec.environment = environment(task);
  spec.environment[kVariable] = tag(task);
  spec.family_variable = kVariable;
  spec.directory = task.spec.directory;
  spec.log_file = log_path(task.id);
  const Pid pid = TRY(processes_.start(spec));
  watched_[pid] = {task, false};
  return Began{task.id, pid, processes_.identity(pid), boot_};
}

// Without a status where none is noted.
Ended Attempts::noted(const Task& task) {
  const std::string file = path(task, "status");
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {task.id, {}};
  const Result<std::string> text = files_.read(file);
  const std::string before = tag(task) + " ";
  if (!text || !text->starts_with(before) || !text->ends_with('\n')) return {task.id, {}};
  const auto status = parse_number<int>(
      std::string_view(*text).substr(before.size(), text->size() - before.size() - 1));
  return {task.id, status, info.st_mtim.tv_sec * 1'000L + info.st_mtim.tv_nsec / 1'000'000L};
}

// What left the attempt's process group would go on with its instance beside the next task.
Event Attempts::at_end(const Task& task, Event event) {
  processes_.end_family(kVariable, tag(task));
  return event;
}

Event Attempts::recover(const Task& task) {
  if (!std::exchange(looked_, true)) found_ = processes_.find(kVariable);
  processes_.end_family(kVariable, tag(task) + kSaves);
  for (const auto& [pid, value] : found_) {
    const std::string identity = processes_.identity(pid);
    if (value != tag(task) || !processes_.adopt(pid, identity)) continue;
    watched_[pid] = {task, false};
    return Began{task.id, pid, identity, boot_};
  }
  if (const Ended ended = noted(task); ended.status) return at_end(task, ended);
  const Descriptor claim(
      ::open(path(task, "claim").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
  if (claim.get() >= 0) return NotBegun{task.id, "the queue ended before it was started", false};
  // Claimed: it has ended, perhaps between two looks.
  return at_end(task, noted(task));
}

std::vector<Event> Attempts::ended() {
  for (const ProcessExit& exit : processes_.exited()) {
    const auto found = watched_.find(exit.pid);
    if (found == watched_.end()) continue;
    const Watched watched = std::move(found->second);
    watched_.erase(found);
    if (watched.saves) {
      events_.emplace_back(Saved{watched.task.id});
    } else if (exit.status != kUnknownStatus) {
      const bool never = exit.status == kClaimed && !noted(watched.task).status;
      events_.emplace_back(never ? Event{NotBegun{watched.task.id, "its attempt was taken", false}}
                                 : at_end(watched.task, Ended{watched.task.id, exit.status}));
    } else {
      events_.emplace_back(at_end(watched.task, noted(watched.task)));
    }
  }
  return std::exchange(events_, {});
}

void Attempts::stop(Pid pid, StopSignal signal) {
  static_cast<void>(processes_.stop(pid, signal));  // one that has ended is no error
}

void Attempts::save(const Task& task) {
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", task.spec.checkpoint};
  spec.environment = environment(task);
  spec.environment["PARTITA_PID"] = fmt::format("{}", task.pid);
  spec.environment[kVariable] = tag(task) + kSaves;
  spec.family_variable = kVariable;
  spec.directory = task.spec.directory;
  spec.log_file = log_path(task.id);
  const Result<Pid> pid = processes_.start(spec);
  if (pid) {
    watched_[*pid] = {task, true};
  } else {
    events_.emplace_back(Saved{task.id});
  }
}

void Attempts::stop_save(long task) {
  const auto found = std::ranges::find_if(
      watched_, [&](const auto& one) { return one.second.saves && one.second.task.id == task; });
  if (found == watched_.end()) return;
  processes_.end_family(kVariable, tag(found->second.task) + kSaves);
  watched_.erase(found);
}

}  // namespace partita::queue
