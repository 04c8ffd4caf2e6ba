#include <unistd.h>

#include <filesystem>
#include <set>
#include <tuple>

#include "act/apply.h"
#include "act/gateway_state.h"
#include "act/workers.h"
#include "base/unicode.h"
#include "commands.h"
#include "node/chronicle.h"
#include "node/devices.h"
#include "node/mps_workers.h"

namespace partita::cli {
namespace {

namespace mps = drivers::mps;
using actuate::AssignedSegment;
using actuate::Environment;

// "PERCENT" or "PERCENT:MIB"
Result<mps::Share> parse_share(const std::string& word) {
  const std::size_t colon = word.find(':');
  const auto percentage = parse_number<double>(word.substr(0, colon));
  if (!percentage)
    return bad_input("--mps-shares",
                     fmt::format("'{}' is no percentage", utf8(printable(word.substr(0, colon)))));
  mps::Share share{.percentage = *percentage, .pinned_memory = {}};
  if (colon == std::string::npos) return share;
  const auto memory = parse_number<double>(word.substr(colon + 1));
  if (!memory || *memory < 1)
    return bad_input("--mps-shares", fmt::format("'{}' is not a number of MiB",
                                                 utf8(printable(word.substr(colon + 1)))));
  share.pinned_memory = {*memory};
  return share;
}

Result<ShareRule> parse_rule(const std::string& text, bool oversubscribe) {
  ShareRule rule;
  const std::size_t equals = text.rfind('=');  // services may have one in their names
  const std::string what = equals == std::string::npos ? text : text.substr(equals + 1);
  if (equals != std::string::npos) rule.service = text.substr(0, equals);
  if (what == "equal") return rule;
  rule.kind = what == "none" ? ShareRule::Kind::none : ShareRule::Kind::listed;
  if (what == "none") return rule;
  for (const std::string& word : split(what, ',')) rule.shares.push_back(TRY(parse_share(word)));
  const auto faults = mps::check_shares(rule.shares, {.oversubscribed = oversubscribe});
  if (!faults.empty()) return bad_input("--mps-shares", mps::to_string(faults.front()));
  return rule;
}

bool applies(const ShareRule& rule, const AssignedSegment& segment) {
  const auto processes = static_cast<std::size_t>(segment.processes);
  return (rule.service.empty() || rule.service == segment.service) &&
         (rule.kind != ShareRule::Kind::listed || rule.shares.size() == processes);
}

// The most memory that an instance of this profile has on any GPU model; 0: unknown.
Mib memory_of(const hw::Catalogue& catalogue, const std::string& profile) {
  Mib most;
  for (const hw::GpuModel& model : catalogue.gpus) {
    const int index = model.profile_index(profile);
    if (index < 0) continue;
    most = std::max(most, model.profiles[static_cast<std::size_t>(index)].memory.value_or(Mib{}));
  }
  return most;
}

struct Rules {
  MpsFlags flags;
  std::vector<ShareRule> shares;
};

Result<std::vector<mps::Share>> shares_of(const Rules& rules, const hw::Catalogue& catalogue,
                                          const AssignedSegment& segment) {
  const auto found = std::ranges::find_if(
      rules.shares, [&](const ShareRule& rule) { return applies(rule, segment); });
  const ShareRule rule = found == rules.shares.end() ? ShareRule{} : *found;
  const auto count = static_cast<std::size_t>(segment.processes);
  std::vector<mps::Share> shares(count);
  if (rule.kind == ShareRule::Kind::listed) shares = rule.shares;
  if (rule.kind == ShareRule::Kind::equal && segment.processes <= mps::kMaxClients)
    shares = mps::equal_shares(segment.processes, {});
  // Without percentages everybody may use all threads.
  const bool free = rules.flags.oversubscribe || rule.kind == ShareRule::Kind::none;
  const auto faults = mps::check_shares(
      shares, {.memory = memory_of(catalogue, segment.profile), .oversubscribed = free});
  if (!faults.empty()) return bad_input("--mps-shares", mps::to_string(faults.front()));
  return shares;
}

Result<std::vector<Environment>> prepare(const mps::Doors& doors, const Rules& rules,
                                         const hw::Catalogue& catalogue,
                                         const AssignedSegment& segment) {
  const auto count = static_cast<std::size_t>(segment.processes);
  const bool lanes = segment.prefill_units > 0;
  if (!rules.flags.on || (segment.processes < 2 && !lanes)) return std::vector<Environment>(count);
  // Lanes are processes of the worker, which gives each its share.
  const std::vector<mps::Share> shares =
      TRY(lanes ? std::vector<mps::Share>(count) : shares_of(rules, catalogue, segment));
  const mps::Place place = TRY(mps::place_of(rules.flags.runtime_directory, segment.device));
  TRY(mps::Daemon(doors, place).start());
  std::vector<Environment> environments;
  for (const mps::Share& share : shares)
    environments.push_back(mps::client_environment(place, share));
  return environments;
}

// Also without --mps: an earlier supervisor may have left a daemon.
Result<void> release(const mps::Doors& doors, const MpsFlags& flags,
                     const AssignedSegment& segment) {
  const Result<mps::Place> place = mps::place_of(flags.runtime_directory, segment.device);
  if (!place || !doors.files.is_directory(place->log_directory)) return {};
  return mps::Daemon(doors, *place).quit();
}

// partita workers: the supervisor in the foreground, or a look at what it wrote down.

constexpr std::int64_t kSecond = 1'000'000'000;

// Emptied in place, not renamed: the program keeps its file open.
std::error_code rotate(const std::filesystem::path& log) {
  std::error_code code;
  std::filesystem::copy_file(log, log.string() + ".1",
                             std::filesystem::copy_options::overwrite_existing, code);
  if (!code) std::filesystem::resize_file(log, 0, code);
  return code;
}

// Every NAME.log in `directory` with more than `limit` bytes becomes NAME.log.1, replacing an older
// one, and is emptied; lines written in between may be lost. The first that cannot be is the Error;
// the others are still done.
Result<void> rotate_logs(const std::string& directory, std::uintmax_t limit) {
  Result<void> result;
  std::error_code code;
  for (std::filesystem::directory_iterator it(directory, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code vanished;
    if (it->path().extension() != ".log" || it->file_size(vanished) <= limit || vanished) continue;
    const std::error_code failure = rotate(it->path());
    if (failure && result)
      result = environment_error(it->path().string(), "cannot rotate: " + failure.message());
  }
  if (code && result) return environment_error(directory, "cannot list: " + code.message());
  return result;
}

struct WorkersFlags {
  std::string command, assignment, state_directory, log_directory, grace = "10s";
  std::string probe, probe_timeout = "1s", probe_period = "1s", startup = "60s";
  int probe_failures = 3;
  bool once = false, show = false;
  int first_port = 8000;
  int log_limit_mib = 100;
  MpsFlags mps;
  DeviceFlags device;
  Output output;
};

// Where the assignment is and the supervisor keeps its own files.
struct Paths {
  std::string assignment, state;
};

Result<Paths> paths_of(Context& context, const WorkersFlags& flags) {
  std::string assignment = flags.assignment;
  if (assignment == "-")
    return bad_input("--assignment", "is read again and again; standard input cannot be");
  if (assignment.empty()) {
    const std::string directory =
        TRY(found_state_directory(context, flags.device, flags.state_directory));
    assignment = actuate::assignment_path(directory);
  }
  const auto path = std::filesystem::absolute(assignment).lexically_normal();
  return Paths{path.string(), actuate::workers_path(path.parent_path())};
}

// What was written down, less the processes that are gone.
actuate::WorkersState as_it_is_now(actuate::WorkersState state) {
  RealProcesses processes;
  const auto clear_if_gone = [&](Pid& pid, std::string& identity) {
    if (pid != 0 && processes.identity(pid) == identity) return;
    pid = 0;
    identity.clear();
  };
  clear_if_gone(state.supervisor.pid, state.supervisor.identity);
  for (actuate::WorkerRecord& worker : state.workers) clear_if_gone(worker.pid, worker.identity);
  return state;
}

std::string state_word(const actuate::WorkerRecord& worker, bool supervised) {
  if (worker.pid != 0) return "runs";
  if (!supervised) return "gone";
  return worker.given_up ? "keeps failing" : "waits";
}

std::string readiness_word(const actuate::WorkerRecord& worker) {
  const std::string word = actuate::to_string(worker.answering);
  return worker.pid == 0 || word.empty() ? "-" : word;
}

std::string workers_text(const actuate::WorkersState& state) {
  const bool supervised = state.supervisor.pid != 0;
  const std::string supervisor =
      supervised ? fmt::format("supervisor: process {}, follows assignment {}\n",
                               state.supervisor.pid, state.revision)
                 : std::string("no supervisor runs\n");
  if (state.workers.empty()) return supervisor + "no workers\n";
  Table table = headed(
      "device|profile|service|batch|worker|state|readiness|process|restarts|last status|port");
  for (const actuate::WorkerRecord& worker : state.workers)
    table.add("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", worker.segment.device, worker.segment.profile,
              worker.segment.service, worker.segment.batch, worker.index,
              state_word(worker, supervised), readiness_word(worker),
              worker.pid != 0 ? fmt::format("{}", worker.pid) : "-", worker.restarts,
              worker.last_status ? fmt::format("{}", *worker.last_status) : "-",
              worker.port > 0 ? fmt::format("{}", worker.port) : "-");
  return supervisor + "\n" + to_string(table);
}

Result<Exit> show(Context& context, const WorkersFlags& flags, const Paths& paths) {
  actuate::WorkersState state;
  if (context.files.exists(paths.state)) {
    actuate::WorkersState parsed = TRY(read_as(context.files, paths.state, actuate::parse_workers));
    state = as_it_is_now(std::move(parsed));
  }
  return finish(context, flags.output,
                flags.output.json() ? actuate::workers_json(state) : workers_text(state));
}

// The assignment as a file that others replace.
class Follower {
 public:
  Follower(Context& context, const std::string& path) : context_(context), path_(path) {}

  // Hands a new assignment to the supervisor; the last good one stays in force when there is none.
  void look(actuate::Supervisor& supervisor) {
    if (!context_.files.exists(path_)) return once("waiting for " + path_);
    const Result<std::string> text = context_.files.read(path_);
    if (!text) return once(to_string(text.error()));
    if (*text == followed_) return;
    const Result<actuate::Assignment> assignment = actuate::parse_assignment(path_, *text);
    if (!assignment) return once(to_string(assignment.error()));
    followed_ = *text;
    said_.clear();
    supervisor.follow(*assignment);
    say(context_, fmt::format("assignment {}: {} segments\n", assignment->revision,
                              assignment->segments.size()));
  }

 private:
  void once(const std::string& complaint) {
    if (complaint != said_) complain(context_, complaint);
    said_ = complaint;
  }

  Context& context_;
  std::string path_, followed_, said_;
};

// Looks at the logs every second.
class Rotation {
 public:
  Rotation(Context& context, const WorkersFlags& flags)
      : context_(context),
        directory_(flags.log_directory),
        limit_(static_cast<std::uintmax_t>(flags.log_limit_mib) << 20) {}

  void look(std::int64_t now_ns) {
    if (now_ns < next_ns_) return;
    next_ns_ = now_ns + kSecond;
    const Result<void> rotated = rotate_logs(directory_, limit_);
    if (!rotated && !failing_) complain(context_, to_string(rotated.error()));
    failing_ = !rotated;
  }

 private:
  Context& context_;
  std::string directory_;
  std::uintmax_t limit_;
  std::int64_t next_ns_ = 0;
  bool failing_ = false;
};

// Keeps in the history which workers are given up, each once until it is well again.
class GivenUp {
 public:
  GivenUp(Context& context, const Paths& paths)
      : chronicle_(context, std::filesystem::path(paths.state).parent_path().string(),
                   "partita workers", "") {}

  void look(const actuate::Supervisor& supervisor) {
    if (!supervisor.troubled()) return known_.clear();
    std::set<std::pair<std::string, int>> now;
    for (const actuate::WorkerRecord& worker : supervisor.state().workers) {
      if (!worker.given_up) continue;
      now.emplace(worker.segment.device, worker.index);
      if (!known_.contains({worker.segment.device, worker.index})) keep(worker);
    }
    known_ = now;
  }

 private:
  void keep(const actuate::WorkerRecord& worker) {
    chronicle_.keep(
        {.kind = history::EventKind::health,
         .cause = "it kept failing",
         .subject = worker.segment.service,
         .outcome = history::Outcome::failed,
         .detail = fmt::format(
             "worker {} on {} is given up after {} restarts{}", worker.index, worker.segment.device,
             worker.restarts,
             worker.last_status ? fmt::format(", last with status {}", *worker.last_status) : "")});
  }

  Chronicle chronicle_;
  std::set<std::pair<std::string, int>> known_;
};

// Until everything is stopped, or settled under --once.
Result<Exit> supervise(Context& context, const WorkersFlags& flags, const Paths& paths,
                       actuate::Supervisor& supervisor) {
  StopRequest stop;
  TRY(supervisor.recover(context.clock.now_ns()));
  Follower follower(context, paths.assignment);
  bool stopping = false;
  Rotation rotation(context, flags);
  GivenUp given_up(context, paths);
  while (true) {
    const std::int64_t now = context.clock.now_ns();
    if (!stopping) follower.look(supervisor);
    rotation.look(now);
    const std::int64_t next = supervisor.step(now);
    given_up.look(supervisor);
    if (stopping && supervisor.stopped()) return Exit::done;
    if (flags.once && !stopping && supervisor.settled()) return Exit::done;
    if (flags.once && !stopping && supervisor.troubled())
      return environment_error("--once", "some workers keep failing; see their logs");
    if (stop.within(std::max<std::int64_t>(next - now, 0)) && !stopping) {
      say(context, "stopping\n");
      stopping = true;
      supervisor.stop_all();
    }
  }
}

Result<actuate::WorkerPolicy> policy_of(const WorkersFlags& flags) {
  actuate::WorkerPolicy policy;
  for (const auto& [flag, text, value] :
       {std::tuple("--grace", &flags.grace, &policy.grace_ns),
        std::tuple("--probe-timeout", &flags.probe_timeout, &policy.probe_timeout_ns),
        std::tuple("--probe-period", &flags.probe_period, &policy.probe_period_ns),
        std::tuple("--startup", &flags.startup, &policy.startup_ns)})
    *value = TRY(parse_nanos(flag, *text));
  policy.probe_failures = flags.probe_failures;
  return policy;
}

// What the gateway of the state directory says; a damaged file is complained about once.
std::function<std::optional<actuate::GatewayState>()> gateway_hook(const MpsWorkers& world,
                                                                   const Paths& paths) {
  const std::string directory = std::filesystem::path(paths.state).parent_path().string();
  return [&context = world.context, &processes = world.processes, directory,
          said = std::string()]() mutable -> std::optional<actuate::GatewayState> {
    auto state =
        actuate::read_gateway({processes, context.files, directory}, context.clock.now_ns());
    if (state) return *std::move(state);
    const std::string complaint = to_string(state.error());
    if (complaint != said) complain(context, complaint);
    said = complaint;
    return std::nullopt;
  };
}

Result<actuate::SupervisorOptions> options_of(const MpsWorkers& world, const WorkersFlags& flags,
                                              const Paths& paths) {
  Context& context = world.context;
  if (flags.command.empty())
    return bad_input("", "--command is required: what each worker runs (or give --show)");
  actuate::CommandTemplate command = TRY(actuate::parse_command("--command", flags.command));
  const actuate::WorkerPolicy policy = TRY(policy_of(flags));
  std::vector<ShareRule> rules = TRY(share_rules(flags.mps));
  if (flags.once) {  // nobody would wait for what is wrong with it
    TRY(read_input(context.files, "--assignment", paths.assignment, actuate::parse_assignment));
  }
  actuate::SupervisorOptions options{.command = std::move(command),
                                     .state_file = paths.state,
                                     .log_dir = flags.log_directory,
                                     .first_port = flags.first_port,
                                     .self = {::getpid(), world.processes.identity(::getpid())}};
  options.policy = policy;
  options.hooks = mps_hooks(world, flags.mps, std::move(rules));
  options.hooks.gateway = gateway_hook(world, paths);
  options.hooks.say = [&context](const std::string& line) { say(context, line + "\n"); };
  return options;
}

Result<Exit> run_workers(Context& context, WorkersFlags flags) {
  const Paths paths = TRY(paths_of(context, flags));
  if (flags.show) return show(context, flags, paths);
  if (flags.mps.runtime_directory.empty())
    flags.mps.runtime_directory = default_runtime_directory();
  flags.mps.runtime_directory = std::filesystem::absolute(flags.mps.runtime_directory).string();
  if (flags.log_directory.empty())
    flags.log_directory =
        (std::filesystem::path(paths.state).parent_path() / "worker-logs").string();
  // Workers inherit our environment; what it says about MPS is meant for us alone.
  for (const char* name :
       {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_SM_PARTITION"})
    ::unsetenv(name);
  const hw::Catalogue catalogue =
      TRY(decide::load_catalogue(context.files, flags.device.catalogue));
  RealProcesses workers, mps;
  actuate::RealHttpProbes probes;
  auto options = TRY(options_of({context, mps, catalogue}, flags, paths));
  if (!flags.probe.empty())
    options.probe = TRY(actuate::parse_probe("--probe", flags.probe, probes));
  actuate::Supervisor supervisor(workers, context.files, std::move(options));
  return supervise(context, flags, paths, supervisor);
}

void add_flags(CLI::App& command, WorkersFlags& flags) {
  takes(command, "--command", flags.command, "--assignment", flags.assignment, "--state-dir",
        flags.state_directory, "--log-dir", flags.log_directory, "--log-limit",
        within(flags.log_limit_mib, 1, 1'000'000), "--grace", preset(flags.grace), "--first-port",
        within(flags.first_port, 1, 65535), "--once", flags.once, "--show", flags.show);
}

}  // namespace

Result<std::vector<ShareRule>> share_rules(const MpsFlags& flags) {
  std::vector<ShareRule> rules;
  for (const std::string& text : flags.shares)
    rules.push_back(TRY(parse_rule(text, flags.oversubscribe)));
  std::ranges::stable_partition(rules, [](const ShareRule& rule) { return !rule.service.empty(); });
  return rules;
}

actuate::WorkerHooks mps_hooks(const MpsWorkers& world, const MpsFlags& flags,
                               std::vector<ShareRule> rules) {
  const mps::Doors doors{world.processes, world.context.files, world.context.clock};
  const Rules how{flags, std::move(rules)};
  actuate::WorkerHooks hooks;
  hooks.prepare = [doors, how, &catalogue = world.catalogue](const AssignedSegment& segment) {
    return prepare(doors, how, catalogue, segment);
  };
  hooks.release = [doors, flags](const AssignedSegment& segment) {
    return release(doors, flags, segment);
  };
  return hooks;
}

Command add_workers(CLI::App& app) {
  auto [command, flags] = adding<WorkersFlags>(
      app, "workers", "Keep a process running for every process of every assigned segment");
  add_flags(*command, *flags);
  takes(*command, "--probe", flags->probe, "--probe-timeout", preset(flags->probe_timeout),
        "--probe-period", preset(flags->probe_period), "--probe-failures",
        within(flags->probe_failures, 1, 1000), "--startup", preset(flags->startup), "--mps",
        flags->mps.on, "--mps-shares", flags->mps.shares, "--mps-oversubscribe",
        flags->mps.oversubscribe, "--runtime-dir", flags->mps.runtime_directory);
  add_device_flags(*command, flags->device);
  return runs(
      command, flags, run_workers, {"text", "json"},
      "partita workers --command 'serve --model {service} --batch {batch} --port {port}' --mps\n"
      "partita workers --assignment assignment.json --command 'sleep 1000' --once\n"
      "partita workers --show");
}

}  // namespace partita::cli
