#include "base/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/child.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/parse_number.h"

namespace partita {
namespace {

// Owns what posix_spawn is told to do in the child.
struct SpawnSettings {
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

tl::unexpected<Error> refused(const std::string& what, const char* call, int code) {
  return environment_error(what, fmt::format("{}: {}", call, std::strerror(code)));
}

// A file without a name that holds `text`, read from its beginning.
int file_of(const std::string& text) {
  if (text.empty()) return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int fd = ::memfd_create("input", MFD_CLOEXEC);
  if (fd < 0) return fd;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    written += static_cast<std::size_t>(n);
  }
  if (written < text.size() || ::lseek(fd, 0, SEEK_SET) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// A session of its own, so that neither the terminal's signals nor its end reach the process;
// signals as a fresh program expects them, whatever we block or ignore.
void detach(SpawnSettings& settings) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&settings.attributes, &none);
  posix_spawnattr_setsigdefault(&settings.attributes, &all);
  posix_spawnattr_setflags(&settings.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

// What /proc says of a process; nothing when there is none.
struct Stat {
  char state = 0;
  Pid session = 0;
  std::string start;  // clock ticks since boot
};
std::optional<Stat> stat_of(Pid pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text, '\0')) return std::nullopt;
  // The second field is the program's name in parentheses and may hold anything, also parentheses.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  Stat stat;
  std::string skipped;
  fields >> stat.state >> skipped >> skipped >> stat.session;
  constexpr int kFieldsBetween = 15;  // the seventh to the 21st; the start time is the 22nd
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  fields >> stat.start;
  return fields ? std::optional(stat) : std::nullopt;
}

// The value of a variable in the environment of a process; nothing when it is not there.
std::optional<std::string> variable_of(const std::string& process, const std::string& variable) {
  std::ifstream file("/proc/" + process + "/environ");
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(variable + "=")) return entry.substr(variable.size() + 1);
  return std::nullopt;
}

// Calls `use` for the number of each process, in no order.
template <class Use>
void each_process(Use use) {
  std::error_code code;  // processes come and go while they are listed
  for (std::filesystem::directory_iterator it("/proc", code), end; !code && it != end;
       it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (const std::optional<Pid> number = parse_number<Pid>(name)) use(*number, name);
  }
}

// The name of a family's cgroup.
constexpr const char* kFamilyPrefix = "partita-";
std::string family_name(const std::string& value) {
  return fmt::format("{}{:016x}", kFamilyPrefix, text_hash(value));
}

bool over(const Stat& stat) { return stat.state == 'Z' || stat.state == 'X'; }

}  // namespace

Result<Pid> RealProcesses::start(const ProcessSpec& spec) {
  CHECK(!spec.argv.empty());
  struct stat info {};
  if (!spec.directory.empty() &&
      (::stat(spec.directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)))
    return environment_error(spec.directory, "cannot run there: no such directory");
  const std::string output_path = spec.log_file.empty() ? "/dev/null" : spec.log_file;
  const Descriptor output(
      ::open(output_path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (output.get() < 0) return refused(output_path, "cannot open the log file", errno);
  const Descriptor input(file_of(spec.input));
  if (input.get() < 0) return refused(spec.argv[0], "cannot hand over its input", errno);

  SpawnSettings settings;
  detach(settings);
  // Where we have no standard input ourselves the log may be number 0: it goes to its place first.
  posix_spawn_file_actions_adddup2(&settings.actions, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, output.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, input.get(), STDIN_FILENO);
  if (!spec.directory.empty())
    posix_spawn_file_actions_addchdir_np(&settings.actions, spec.directory.c_str());

  std::vector<std::string> argv = spec.argv;
  std::vector<std::string> environment = environment_with(spec.environment);
  pid_t pid = 0;
  const auto family = spec.environment.find(spec.family_variable);
  // What ended while nobody looked has left its cgroup.
  if (family != spec.environment.end() && running_.empty()) cgroups_.tidy(kFamilyPrefix);
  const bool apart =
      family != spec.environment.end() && cgroups_.enter(family_name(family->second));
  const int code = ::posix_spawnp(&pid, argv[0].c_str(), &settings.actions, &settings.attributes,
                                  pointers(argv).data(), pointers(environment).data());
  if (apart) cgroups_.leave();
  if (code != 0) return refused(spec.argv[0], "cannot start the program", code);
  running_[pid] = {.daemon = spec.daemon, .adopted_as = ""};
  return pid;
}

std::optional<int> RealProcesses::end_of(Pid pid, const Process& process) {
  if (!process.adopted_as.empty()) {
    const std::string now = identity(pid);
    if (now == process.adopted_as) return std::nullopt;
    // As long as its group lives, nobody else gets the number.
    if (now.empty() && !process.daemon) ::kill(-static_cast<pid_t>(pid), SIGKILL);
    return kUnknownStatus;
  }
  const auto id = static_cast<pid_t>(pid);
  siginfo_t info{};
  const int waited = ::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOHANG | WNOWAIT);
  if (waited != 0) return kUnknownStatus;  // somebody else took the answer (SIGCHLD ignored)
  if (info.si_pid == 0) return std::nullopt;
  // Not waited for yet, so the number cannot belong to another group.
  if (!process.daemon) ::kill(-id, SIGKILL);
  int status = 0;
  if (::waitpid(id, &status, 0) != id) return kUnknownStatus;
  return exit_status(status);
}

std::vector<ProcessExit> RealProcesses::exited() {
  std::vector<ProcessExit> exits;
  std::erase_if(dying_, remove_cgroup);
  for (auto it = running_.begin(); it != running_.end();) {
    const std::optional<int> status = end_of(it->first, it->second);
    if (status) exits.push_back({it->first, *status});
    it = status ? running_.erase(it) : std::next(it);
  }
  return exits;
}

Result<void> RealProcesses::stop(Pid pid, StopSignal signal) {
  const auto it = running_.find(pid);
  if (it == running_.end()) return {};
  const std::string& adopted_as = it->second.adopted_as;
  if (!adopted_as.empty() && identity(pid) != adopted_as) return {};
  const int number = signal == StopSignal::kill ? SIGKILL : SIGTERM;
  const auto id = static_cast<pid_t>(pid);
  // What was adopted need not lead a group.
  const bool led = ::kill(-id, number) == 0;
  if (led || (errno == ESRCH && (adopted_as.empty() || ::kill(id, number) == 0 || errno == ESRCH)))
    return {};
  return refused(fmt::format("process {}", pid), "cannot signal it", errno);
}

bool RealProcesses::alive(Pid pid) {
  const std::optional<Stat> stat = stat_of(pid);
  return stat && !over(*stat);
}

std::string RealProcesses::identity(Pid pid) {
  const std::optional<Stat> stat = stat_of(pid);
  if (!stat || over(*stat)) return {};
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return stat->start + "@" + boot;
}

Result<void> RealProcesses::adopt(Pid pid, const std::string& identity_then) {
  if (identity_then.empty() || identity(pid) != identity_then)
    return failed({ErrorCode::not_found, "no longer runs", fmt::format("process {}", pid)});
  running_.try_emplace(pid, Process{.daemon = false, .adopted_as = identity_then});
  return {};
}

std::map<Pid, std::string> RealProcesses::find(const std::string& variable) {
  std::map<Pid, std::string> found;
  each_process([&](Pid pid, const std::string& name) {
    const std::optional<Stat> stat = stat_of(pid);
    if (!stat || over(*stat) || stat->session != pid) return;  // start() makes sessions
    if (auto value = variable_of(name, variable)) found[pid] = *std::move(value);
  });
  return found;
}

void RealProcesses::end_family(const std::string& variable, const std::string& value) {
  const std::string name = family_name(value);
  std::string folder = cgroups_.folder_of(name);
  constexpr int kRounds = 10;  // one that is just being started is seen in the next
  for (int round = 0; round < kRounds; ++round) {
    bool found = false;
    each_process([&](Pid pid, const std::string& process) {
      const std::optional<Stat> stat = stat_of(pid);
      if (pid == ::getpid() || !stat || over(*stat) || variable_of(process, variable) != value)
        return;
      // Who was adopted may be in a cgroup that another door has made elsewhere.
      if (folder.empty()) folder = cgroups_.folder_with(pid, name);
      found = ::kill(static_cast<pid_t>(pid), SIGKILL) == 0 || found;
    });
    if (!found) break;
  }
  // Not by a door that may be in there itself.
  if (folder.empty() || folder == cgroups_.folder_with(::getpid(), name)) return;
  end_cgroup(folder);
  if (!remove_cgroup(folder)) dying_.push_back(folder);
}

Result<Pid> SimProcesses::start(const ProcessSpec& spec) {
  CHECK(!spec.argv.empty());
  SimBehaviour behaviour = script_(spec);
  if (behaviour.refused) return failed(*behaviour.refused);
  Process process{.spec = spec, .behaviour = behaviour, .started_ns = clock_.now_ns()};
  if (behaviour.run_ns) end(process, process.started_ns + *behaviour.run_ns, behaviour.status);
  processes_[next_] = std::move(process);
  return next_++;
}

std::vector<ProcessExit> SimProcesses::exited() {
  std::vector<ProcessExit> exits;
  for (auto it = processes_.begin(); it != processes_.end();) {
    const Process& process = it->second;
    const bool over = ended(process);
    if (over && process.ours)
      exits.push_back({it->first, process.child ? process.status : kUnknownStatus});
    it = over ? processes_.erase(it) : std::next(it);
  }
  return exits;
}

// What happens first counts.
void SimProcesses::end(Process& process, std::int64_t at_ns, int status) {
  if (process.ends_ns && *process.ends_ns <= at_ns) return;
  process.ends_ns = at_ns;
  process.status = status;
}

Result<void> SimProcesses::stop(Pid pid, StopSignal signal) {
  const auto it = processes_.find(pid);
  if (it == processes_.end() || !it->second.ours || ended(it->second)) return {};
  Process& process = it->second;
  const std::int64_t now = clock_.now_ns();
  if (signal == StopSignal::kill)
    end(process, now, 128 + SIGKILL);
  else if (process.behaviour.heeds_terminate)
    end(process, now + process.behaviour.stop_ns, 128 + SIGTERM);
  return {};
}

bool SimProcesses::alive(Pid pid) {
  const auto it = processes_.find(pid);
  return it != processes_.end() && !ended(it->second);
}

std::string SimProcesses::identity(Pid pid) {
  return alive(pid) ? fmt::format("{}@sim", processes_.at(pid).started_ns) : std::string{};
}

Result<void> SimProcesses::adopt(Pid pid, const std::string& identity_then) {
  if (identity_then.empty() || identity(pid) != identity_then)
    return failed({ErrorCode::not_found, "no longer runs", fmt::format("process {}", pid)});
  processes_.at(pid).ours = true;
  return {};
}

std::map<Pid, std::string> SimProcesses::find(const std::string& variable) {
  std::map<Pid, std::string> found;
  for (const auto& [pid, process] : processes_) {
    const auto it = process.spec.environment.find(variable);
    if (!ended(process) && it != process.spec.environment.end()) found[pid] = it->second;
  }
  return found;
}

void SimProcesses::end_family(const std::string& variable, const std::string& value) {
  for (auto& [pid, process] : processes_) {
    const auto it = process.spec.environment.find(variable);
    if (it != process.spec.environment.end() && it->second == value)
      end(process, clock_.now_ns(), 128 + SIGKILL);
  }
}

std::map<Pid, SimProcesses::Process> SimProcesses::running() {
  std::map<Pid, Process> living;
  for (const auto& [pid, process] : processes_)
    if (!ended(process)) living[pid] = process;
  return living;
}

std::optional<std::int64_t> SimProcesses::next_end_ns() {
  std::optional<std::int64_t> next;
  for (const auto& [pid, process] : processes_)
    if (process.ends_ns && (!next || *process.ends_ns < *next)) next = process.ends_ns;
  return next;
}

void SimProcesses::crash(Pid pid, int status) {
  const auto it = processes_.find(pid);
  if (it != processes_.end()) end(it->second, clock_.now_ns(), status);
}

void SimProcesses::orphan_all() {
  for (auto& [pid, process] : processes_) process.ours = process.child = false;
}

}  // namespace partita
