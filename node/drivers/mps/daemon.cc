#include "drivers/mps/daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/unicode.h"

namespace partita::drivers::mps {
namespace {

constexpr std::int64_t kFirstNapNs = 1'000'000;
constexpr std::int64_t kLongestNapNs = 10'000'000;

// Everything that a daemon keeps in its pipe directory. The longest decides how long that may be.
constexpr std::string_view kPidFile = "nvidia-cuda-mps-control.pid";
constexpr std::string_view kSockets[] = {"control", "control_lock", "control_privileged", "log"};
constexpr std::size_t kLongestSocket = std::string_view("control_privileged").size();
constexpr std::size_t kMaxSocketPath = 107;

// Printed with an exit status of 1.
constexpr std::string_view kNotRunning = "Cannot find MPS control daemon";

std::string_view trimmed(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string_view::npos ? std::string_view{} : text.substr(0, end + 1);
}

// The last line of what a program printed, safe to show.
std::string last_line(std::string_view text) {
  text = trimmed(text);
  const std::size_t before = text.rfind('\n');
  constexpr std::size_t kShownReasonBytes = 160;
  text =
      text.substr(before == std::string_view::npos ? 0 : before + 1).substr(0, kShownReasonBytes);
  return utf8(printable(text));
}

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

// Whole MiB: the control takes no fractions.
std::string memory_word(Mib memory) { return fmt::format("{:.0f}M", std::floor(memory.value)); }

}  // namespace

Result<Place> place_of(const std::string& runtime_directory, const std::string& device) {
  std::string name = device;  // drivers before 470 put slashes into UUIDs of MIG devices
  std::ranges::replace(name, '/', '_');
  const std::string home = runtime_directory + "/" + name;
  Place place{.device = device, .pipe_directory = home + "/pipe", .log_directory = home + "/log"};
  const std::size_t longest = place.pipe_directory.size() + 1 + kLongestSocket;
  if (longest > kMaxSocketPath) {
    return bad_input(runtime_directory,
                     fmt::format("too long for the sockets of MPS: {} bytes too many",
                                 longest - kMaxSocketPath));
  }
  return place;
}

std::map<std::string, std::string> client_environment(const Place& place, const Share& share) {
  std::map<std::string, std::string> environment{
      {"CUDA_VISIBLE_DEVICES", place.device},
      {"CUDA_MPS_PIPE_DIRECTORY", place.pipe_directory},
      {"CUDA_MPS_LOG_DIRECTORY", place.log_directory},
      {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", fmt::format("{:g}", share.percentage)}};
  // The client sees one device, so its number there is 0.
  if (share.pinned_memory.value > 0)
    environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = "0=" + memory_word(share.pinned_memory);
  return environment;
}

// The percentage is set so that one in our own environment does not become everybody's limit.
std::map<std::string, std::string> Daemon::environment() const {
  return client_environment(place_, Share{});
}

Result<int> Daemon::wait(Pid pid, std::int64_t until_ns) {
  std::int64_t nap = kFirstNapNs;
  while (true) {
    for (const ProcessExit& exit : doors_.processes.exited())
      if (exit.pid == pid) return exit.status;
    const std::int64_t left = until_ns - doors_.clock.now_ns();
    if (left <= 0) break;
    doors_.clock.sleep_ns(std::min(nap, left));
    nap = std::min(2 * nap, kLongestNapNs);
  }
  static_cast<void>(doors_.processes.stop(pid, StopSignal::kill));
  return failed(
      {ErrorCode::timeout,
       fmt::format("no answer within {} s", static_cast<double>(options_.timeout_ns) / 1e9),
       options_.program});
}

// What the program printed; an Error when it could not run, failed or took too long.
Result<std::string> Daemon::run(const std::vector<std::string>& arguments,
                                const std::string& input) {
  const std::string answer_file = place_.log_directory + "/answer";
  TRY(doors_.files.remove(answer_file));
  ProcessSpec spec{.argv = {options_.program},
                   .environment = environment(),
                   .log_file = answer_file,
                   .input = input,
                   .daemon = true};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  const Result<Pid> pid = doors_.processes.start(spec);
  if (!pid) return failed({ErrorCode::no_driver, pid.error().message, pid.error().context});
  const int status = TRY(wait(*pid, doors_.clock.now_ns() + options_.timeout_ns));
  const std::string answer = TRY(doors_.files.read(answer_file));
  if (answer.find(kNotRunning) != std::string::npos)
    return failed({ErrorCode::not_found, "no MPS control daemon runs there", place_.device});
  if (status != 0)
    return environment_error(options_.program,
                             fmt::format("ended with status {}: {}", status, last_line(answer)));
  return answer;
}

Result<std::string> Daemon::ask(const std::string& command) {
  if (!doors_.files.is_directory(place_.log_directory))
    return failed({ErrorCode::not_found, "no MPS control daemon runs there", place_.device});
  Result<std::string> answer = run({}, command + "\n");
  if (!answer) answer.error().context += fmt::format(" ({}, {})", command, place_.device);
  return answer;
}

Pid Daemon::daemon_pid() {
  const Result<std::string> text =
      doors_.files.read(fmt::format("{}/{}", place_.pipe_directory, kPidFile));
  if (!text) return 0;
  const Result<std::vector<Pid>> pids = parse_pids(*text);
  return pids && pids->size() == 1 ? pids->front() : 0;
}

// Whether the process of this number is the control daemon of this place: a pid file may name a
// number that belongs to somebody else by now.
bool Daemon::is_daemon(Pid pid) {
  const Result<std::string> command = doors_.files.read(fmt::format("/proc/{}/cmdline", pid));
  const Result<std::string> variables = doors_.files.read(fmt::format("/proc/{}/environ", pid));
  if (!command || !variables) return false;
  bool named = false;
  for (std::size_t at = 0; at < command->size(); at = command->find('\0', at) + 1) {
    named = named || base_name(command->c_str() + at) == base_name(options_.program);
    if (command->find('\0', at) == std::string::npos) break;
  }
  const std::string place = '\0' + ("CUDA_MPS_PIPE_DIRECTORY=" + place_.pipe_directory) + '\0';
  return named && ('\0' + *variables + '\0').find(place) != std::string::npos;
}

Result<void> Daemon::kill_daemon() {
  const Pid pid = daemon_pid();
  if (pid == 0 || !is_daemon(pid)) return {};
  const std::string identity = doors_.processes.identity(pid);
  if (!doors_.processes.adopt(pid, identity)) return {};  // it ended meanwhile
  TRY(doors_.processes.stop(pid, StopSignal::kill));
  const Result<int> ended = wait(pid, doors_.clock.now_ns() + options_.timeout_ns);
  return ended ? Result<void>{} : failed(ended.error());
}

// Stale files deceive whoever looks at them. What cannot be removed, the next daemon overwrites.
void Daemon::clean() {
  static_cast<void>(doors_.files.remove(fmt::format("{}/{}", place_.pipe_directory, kPidFile)));
  for (const std::string_view name : kSockets)
    static_cast<void>(doors_.files.remove(fmt::format("{}/{}", place_.pipe_directory, name)));
}

bool Daemon::shares() {
  const Result<std::string> answer = ask("lspart");
  return !answer || !lists_partitions(*answer);
}

Result<void> Daemon::start() {
  for (const std::string& directory : {place_.pipe_directory, place_.log_directory})
    TRY(doors_.files.make_directories(directory));
  const Result<Health> running = health();
  if (!running && running.error().code == ErrorCode::no_driver) return failed(running.error());
  if (running && shares()) return {};
  if (running) {
    TRY(quit());
  } else {
    TRY(kill_daemon());
    clean();
  }
  return launch();
}

Result<void> Daemon::launch() {
  const Result<std::string> printed = run({"-d"}, "");
  return printed ? await_ready() : failed(printed.error());
}

Result<void> Daemon::await_ready() {
  const std::int64_t until = doors_.clock.now_ns() + options_.timeout_ns;
  while (true) {
    const Result<std::string> answer = ask("get_default_active_thread_percentage");
    const Result<double> read = answer ? parse_percentage(*answer) : failed(answer.error());
    if (read) return {};
    if (doors_.clock.now_ns() >= until) {
      static_cast<void>(kill_daemon());
      return failed({ErrorCode::timeout,
                     fmt::format("started, but is of no use: {}; see control.log in {}",
                                 read.error().message, place_.log_directory),
                     place_.device});
    }
    doors_.clock.sleep_ns(kLongestNapNs);
  }
}

Result<void> Daemon::quit() {
  const Pid pid = daemon_pid();
  // By its identity: a process that is ending has no command line any more, but is still there.
  const std::string identity =
      pid != 0 && is_daemon(pid) ? doors_.processes.identity(pid) : std::string{};
  const Result<std::string> answer = ask(fmt::format("quit -t {}", options_.quit_grace_s));
  if (!answer && answer.error().code == ErrorCode::no_driver) return failed(answer.error());
  const std::int64_t until = doors_.clock.now_ns() + options_.timeout_ns;
  while (answer && !identity.empty() && doors_.processes.identity(pid) == identity &&
         doors_.clock.now_ns() < until)
    doors_.clock.sleep_ns(kFirstNapNs);
  TRY(kill_daemon());
  clean();
  return {};
}

Result<Health> Daemon::health() {
  const std::string list = TRY(ask("get_server_list"));
  const std::vector<Pid> pids = TRY(parse_pids(list));
  Health health{.daemon = daemon_pid(), .servers = {}};
  for (const Pid pid : pids) {
    const std::string clients = TRY(ask(fmt::format("get_client_list {}", pid)));
    const std::vector<Pid> client_pids = TRY(parse_pids(clients));
    health.servers.push_back({pid, client_pids});
  }
  return health;
}

}  // namespace partita::drivers::mps
