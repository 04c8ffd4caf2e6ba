#include <unistd.h>

#include <filesystem>

#include "act/loans/loans.h"
#include "base/url.h"
#include "commands.h"
#include "lease/lease_desk.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

Error by_flag(Error error) {
  static constexpr std::pair<const char*, const char*> kFlags[] = {
      {"owner", "--for"},       {"while", "--while"},   {"ttl", "--ttl"},
      {"gpu", "--gpu-index"},   {"start", "--start"},   {"exact", "--exact"},
      {"profile", "--profile"}, {"from", "--take-from"}};
  for (const auto& [key, flag] : kFlags)
    if (error.context == key) error.context = flag;
  return error;
}

constexpr const char* kMinors = "/proc/driver/nvidia-caps/mig-minors";
constexpr std::int64_t kRetry = 5'000'000, kBusyRetry = 50'000'000;
constexpr std::int64_t kBusyPatience = 10'000'000'000;
constexpr double kNanos = 1e9;

LeaseAnswer answer_of(const lease::Outcome& outcome, const std::string& minors) {
  LeaseAnswer answer{{}, outcome.refused};
  for (const lease::Lease& one : outcome.leases)
    answer.leases.leases.push_back(lease::document_of(one, minors));
  answer.leases.returned = outcome.returned;
  return answer;
}

// What the agent refuses is an error; that it is a refusal tells its code.
Result<LeaseAnswer> refusal_of(const Error& error) {
  if (error.code != ErrorCode::no_room && error.code != ErrorCode::infeasible)
    return failed(error);
  const bool room = error.code == ErrorCode::no_room;
  return LeaseAnswer{{}, lease::Refused{{room ? "room" : "owner", "node", 0, 1, error.message}}};
}

Result<LeaseAnswer> take_of_agent(const api::Client& agent, const lease::Wanted& wanted) {
  const auto text = agent.call("take_lease", {}, lease::wanted_json(wanted));
  if (!text) return refusal_of(text.error());
  auto one = TRY(lease::parse_lease("the agent's answer", *text));
  return LeaseAnswer{{{std::move(one)}, {}}, {}};
}

Result<LeaseAnswer> give_back_to_agent(const api::Client& agent, const std::string& owner) {
  const auto text = TRY(agent.call("return_lease", {}, {}, "owner=" + percent_encoded(owner)));
  auto leases = TRY(lease::parse_leases_document("the agent's answer", text));
  return LeaseAnswer{std::move(leases), {}};
}

constexpr const char* kPatience = "30s";

struct LeaseFlags {
  DeviceFlags device;
  Output output;
  lease::Wanted wanted;
  int gpu = -1, start = -1;
  std::string ttl, patience = kPatience;
  bool sweep = false;
};

Result<LeaseDesk> open_desk(Context& context, const LeaseFlags& flags) {
  const Seconds patience = TRY(parse_duration("--wait", flags.patience));
  return LeaseDesk::open(context, flags.device, patience);
}

Result<lease::Wanted> wanted_of(const LeaseFlags& flags) {
  lease::Wanted wanted = flags.wanted;
  if (flags.gpu >= 0) wanted.gpu = flags.gpu;
  if (flags.start >= 0) wanted.start = flags.start;
  if (flags.ttl.empty()) return wanted;
  const Seconds ttl = TRY(parse_duration("--ttl", flags.ttl, kMaxTerm));
  wanted.ttl_s = ttl.value;
  return wanted;
}

Result<Exit> show_lease(Context& context, const LeaseFlags& flags, const LeaseAnswer& answer) {
  if (const auto& no = answer.refused) {
    refusal(context, fmt::format("{}: {}", no->reason.subject, no->reason.detail));
    if (!flags.output.json()) return Exit::no;
    return finish(context, {}, lease::refusal_json(*no), Exit::no);
  }
  const lease::LeaseDocument& one = answer.leases.leases.front();
  return finish(context, flags.output,
                flags.output.json()            ? lease::lease_json(one)
                : flags.output.format == "env" ? lease::lease_shell(one)
                                               : lease::lease_text(one));
}

Result<Exit> show_leases(Context& context, const LeaseFlags& flags, const LeaseAnswer& answer) {
  return finish(context, flags.output,
                flags.output.json() ? lease::leases_json(answer.leases)
                                    : lease::leases_text(answer.leases, wall_clock_ms()));
}

Result<Exit> show_returned(Context& context, const LeaseFlags& flags, const LeaseAnswer& answer) {
  if (flags.output.json()) return show_leases(context, flags, answer);
  std::string text;
  for (const std::string& one : answer.leases.returned)
    text += fmt::format("returned what {} held\n", one);
  if (text.empty()) text = fmt::format("{} holds nothing\n", flags.wanted.owner);
  return finish(context, flags.output, text);
}

// Shows an answer; an error is about the flag that says it.
using Show = Result<Exit>(Context&, const LeaseFlags&, const LeaseAnswer&);
Result<Exit> shown(Context& context, const LeaseFlags& flags, const Result<LeaseAnswer>& answer,
                   Show* show) {
  return answer ? show(context, flags, *answer) : failed(by_flag(answer.error()));
}

Result<Exit> run_lease(Context& context, const LeaseFlags& flags) {
  const auto wanted = TRY(wanted_of(flags));
  auto desk = TRY(open_desk(context, flags));
  return shown(context, flags, desk.take(wanted), show_lease);
}

Result<Exit> remote_lease(Context& context, const LeaseFlags& flags, const api::Client& agent) {
  const auto wanted = TRY(wanted_of(flags));
  return shown(context, flags, take_of_agent(agent, wanted), show_lease);
}

Result<Exit> run_return(Context& context, const LeaseFlags& flags) {
  auto desk = TRY(open_desk(context, flags));
  return shown(context, flags, desk.give_back(flags.wanted.owner), show_returned);
}

Result<Exit> remote_return(Context& context, const LeaseFlags& flags, const api::Client& agent) {
  return shown(context, flags, give_back_to_agent(agent, flags.wanted.owner), show_returned);
}

Result<Exit> run_leases(Context& context, const LeaseFlags& flags) {
  auto desk = TRY(open_desk(context, flags));
  return shown(context, flags, flags.sweep ? desk.sweep() : desk.list(), show_leases);
}

Result<Exit> remote_leases(Context& context, const LeaseFlags& flags, const api::Client& agent) {
  const auto text = TRY(agent.call("leases"));
  auto leases = TRY(lease::parse_leases_document("the server's answer", text));
  return show_leases(context, flags, {std::move(leases), {}});
}

// Here, and of an agent.
Command both(CLI::App* command, const std::shared_ptr<LeaseFlags>& flags,
             Result<Exit> (*here)(Context&, const LeaseFlags&),
             Result<Exit> (*there)(Context&, const LeaseFlags&, const api::Client&)) {
  return {
      command, [=](Context& context) { return here(context, *flags); },
      [=](Context& context, const api::Client& agent) { return there(context, *flags, agent); }};
}

CLI::Option* add_owner(CLI::App& command, LeaseFlags& flags) {
  return flag(command, "--for", flags.wanted.owner)->required();
}

void add_patience(CLI::App& command, LeaseFlags& flags) {
  flag(command, "--wait", flags.patience, "While another command changes the node")
      ->default_str(kPatience);
}

}  // namespace

std::string mig_minors(Context& context) {
  if (!context.files.exists(kMinors)) return {};
  return context.files.read(kMinors).value_or("");
}

Result<LeaseDesk> LeaseDesk::open(Context& context, const DeviceFlags& device, Seconds patience) {
  if (device.driver == "amd")
    return failed({ErrorCode::not_supported, "AMD's GPUs have no instances to lend", "--driver"});
  OpenDriver open = TRY(open_driver(context, device));
  LeaseDesk desk(context, std::move(open), patience);
  desk.node_ = TRY(device::read_node(*desk.open_.bare));
  return desk;
}

Result<LeaseAnswer> LeaseDesk::ask_node(const lease::Ask& ask) {
  // Loans of dead owners may have places announced.
  if (const std::string log = loan_log(open_, node_); !log.empty() && context_.files.exists(log)) {
    TRY(exec::Loans::open({*open_.driver, context_.clock, context_.files, processes_}, log,
                          ::getpid()));
  }
  auto leases =
      TRY(lease::Leases::open(lease_doors(context_, open_, processes_), lease_log(open_, node_)));
  const auto outcome = TRY(leases.ask(ask));
  return answer_of(outcome, mig_minors(context_));
}

template <class Call>
std::optional<Result<LeaseAnswer>> LeaseDesk::ask_agent(const Call& call) {
  std::vector<std::string> sockets;
  for (const std::string& folder : {state_directory("", node_), default_runtime_directory()})
    sockets.push_back(std::filesystem::absolute(folder).string() + "/api.sock");
  sockets.push_back(agent_socket(context_, open_, node_));  // where its settings have it
  for (const std::string& socket : sockets) {
    if (!context_.files.exists(socket)) continue;
    const auto client = api::Client::to({.socket = socket}, {}, context_.clock);
    if (!client) continue;
    Result<LeaseAnswer> answer = call(*client);
    const bool gone = !answer && (answer.error().code == ErrorCode::lost ||
                                  answer.error().code == ErrorCode::environment);
    if (!gone) return answer;
  }
  return std::nullopt;
}

// Whoever changes the node has it for a moment; the agent, for ever.
template <class Here, class There>
Result<LeaseAnswer> LeaseDesk::in_time(const Here& here, const There& there) {
  const std::int64_t give_up =
      context_.clock.now_ns() + static_cast<std::int64_t>(patience_.value * kNanos);
  for (;;) {
    Result<FileLock> lock = lock_node_only(context_, open_, node_);
    if (lock) return here();
    if (lock.error().code != ErrorCode::in_use) return failed(lock.error());
    if (auto told = ask_agent(there)) return *std::move(told);
    if (context_.clock.now_ns() >= give_up) return failed(lock.error());
    context_.clock.sleep_ns(kRetry);
  }
}

Result<LeaseAnswer> LeaseDesk::take(const lease::Wanted& wanted) {
  const lease::Ask ask = TRY(lease::ask_of(wanted, processes_, wall_clock_ms()));
  Result<LeaseAnswer> answer =
      in_time([&] { return ask_node(ask); },
              [&](const api::Client& agent) { return take_of_agent(agent, wanted); });
  const bool untold = answer && answer->refused && answer->refused->reason.constraint == "room" &&
                      answer->refused->free.empty();
  if (!untold) return answer;  // else the agent said it in words
  for (const device::GpuState& gpu : node_.gpus) {
    if (!gpu.mig_enabled || gpu.lost || (wanted.gpu && *wanted.gpu != gpu.index)) continue;
    const auto now = open_.bare->read(gpu.index);
    if (!now) continue;
    for (lease::FreeShape& shape :
         lease::free_shapes({*now, lease::model_of(*now, {}, open_.catalogue.get())}))
      answer->refused->free.push_back(std::move(shape));
  }
  return answer;
}

Result<LeaseAnswer> LeaseDesk::give_back(const std::string& owner) {
  if (const std::string fault = lease::owner_fault(owner); !fault.empty())
    return bad_input("owner", fmt::format("'{}': {}", owner, fault));
  const std::int64_t give_up = context_.clock.now_ns() + kBusyPatience;
  for (;;) {
    Result<LeaseAnswer> answer =
        in_time([&] { return ask_node(lease::Return{owner}); },
                [&](const api::Client& agent) { return give_back_to_agent(agent, owner); });
    const bool busy = !answer && answer.error().code == ErrorCode::in_use &&
                      answer.error().context == "owner";
    if (!busy || context_.clock.now_ns() >= give_up) return answer;
    context_.clock.sleep_ns(kBusyRetry);
  }
}

Result<LeaseAnswer> LeaseDesk::sweep() {
  return in_time([&] { return ask_node(lease::Sweep{}); },
                 [&](const api::Client&) { return list(); });  // the agent sweeps by itself
}

Result<std::vector<lease::Lease>> LeaseDesk::list(const device::NodeState& node) {
  return lease::read_leases(lease_doors(context_, open_, processes_), lease_log(open_, node_),
                            node);
}

Result<LeaseAnswer> LeaseDesk::list() {
  const auto leases =
      TRY(lease::read_leases(lease_doors(context_, open_, processes_), lease_log(open_, node_)));
  return answer_of({leases, {}, {}}, mig_minors(context_));
}

Command add_lease(CLI::App& app) {
  auto [command, flags] =
      adding<LeaseFlags>(app, "lease", "Lease an instance to OWNER, or show the one that it has");
  flag(*command, "--profile", flags->wanted.profile);
  add_owner(*command, *flags);
  takes(*command, "--gpu-index", limited(flags->gpu, 0, 1e6), "--start",
        limited(flags->start, 0, 1e6), "--exact", flags->wanted.exact);
  CLI::Option* ttl = flag(*command, "--ttl", flags->ttl);
  within(flag(*command, "--while", flags->wanted.while_pid), 1, 4e9)->excludes(ttl);
  flag(*command, "--take-from", flags->wanted.from);
  add_patience(*command, *flags);
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"text", "json", "env"});
  command->footer(
      "partita lease --profile 3g.40gb --for slurm:$SLURM_JOB_ID --format env\n"
      "partita lease --profile 3g.40gb --gpu-index 0 --start 4 --exact --for slurm:42\n"
      "partita lease --profile 1g.10gb --for me --while $$\n"
      "partita lease --take-from slurm:42 --for slurm:43");
  return both(command, flags, run_lease, remote_lease);
}

Command add_return(CLI::App& app) {
  auto [command, flags] =
      adding<LeaseFlags>(app, "return", "Give back what OWNER, and OWNER/2 ..., hold by `lease`");
  add_owner(*command, *flags);
  add_patience(*command, *flags);
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita lease --return --for slurm:42");
  return both(command, flags, run_return, remote_return);
}

Command add_leases(CLI::App& app) {
  auto [command, flags] =
      adding<LeaseFlags>(app, "leases", "Show which instances are lent, and to whom");
  flag(*command, "--end-expired", flags->sweep);
  add_patience(*command, *flags);
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita lease --list --format json");
  return both(command, flags, run_leases, remote_leases);
}

}  // namespace partita::cli
