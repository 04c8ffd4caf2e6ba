#include <memory>

#include "commands.h"
#include "flags.h"
#include "lease/lease_desk.h"

namespace partita::cli {
namespace {

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
  const Seconds ttl = TRY(parse_duration("--ttl", flags.ttl));
  wanted.ttl_s = ttl.value;
  return wanted;
}

Result<Exit> run_lease(Context& context, const LeaseFlags& flags) {
  const auto wanted = TRY(wanted_of(flags));
  auto desk = TRY(open_desk(context, flags));
  const auto answer = desk.take(wanted);
  if (!answer) return failed(by_flag(answer.error()));
  return show_lease(context, flags.output, *answer);
}

Result<Exit> remote_lease(Context& context, const LeaseFlags& flags, const api::Client& agent) {
  const auto wanted = TRY(wanted_of(flags));
  const auto answer = take_of_agent(agent, wanted);
  return answer ? show_lease(context, flags.output, *answer) : failed(by_flag(answer.error()));
}

Result<Exit> run_return(Context& context, const LeaseFlags& flags) {
  auto desk = TRY(open_desk(context, flags));
  const auto answer = desk.give_back(flags.wanted.owner);
  if (!answer) return failed(by_flag(answer.error()));
  return show_returned(context, flags.output, flags.wanted.owner, *answer);
}

Result<Exit> remote_return(Context& context, const LeaseFlags& flags, const api::Client& agent) {
  const auto answer = give_back_to_agent(agent, flags.wanted.owner);
  if (!answer) return failed(by_flag(answer.error()));
  return show_returned(context, flags.output, flags.wanted.owner, *answer);
}

Result<Exit> run_leases(Context& context, const LeaseFlags& flags) {
  auto desk = TRY(open_desk(context, flags));
  const auto answer = flags.sweep ? desk.sweep() : desk.list();
  if (!answer) return failed(by_flag(answer.error()));
  return show_leases(context, flags.output, *answer);
}

Result<Exit> remote_leases(Context& context, const LeaseFlags& flags, const api::Client& agent) {
  const auto text = TRY(agent.call("leases"));
  auto leases = TRY(lease::parse_leases_document("the server's answer", text));
  return show_leases(context, flags.output, {std::move(leases), {}});
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
  flag(command, "--wait", flags.patience, "For another command that changes the node")
      ->default_str(kPatience);
}

}  // namespace

Command add_lease(CLI::App& app) {
  auto [command, flags] =
      adding<LeaseFlags>(app, "lease", "Hold an instance: make one for OWNER, or say which it has");
  flag(*command, "--profile", flags->wanted.profile);
  add_owner(*command, *flags);
  within(flag(*command, "--gpu-index", flags->gpu), 0, 1e6);
  within(flag(*command, "--start", flags->start), 0, 1e6);
  flag(*command, "--exact", flags->wanted.exact);
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
