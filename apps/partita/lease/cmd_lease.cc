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
  const Result<Seconds> patience = parse_duration("--wait", flags.patience);
  if (!patience) return failed(patience.error());
  return LeaseDesk::open(context, flags.device, *patience);
}

Result<lease::Wanted> wanted_of(const LeaseFlags& flags) {
  lease::Wanted wanted = flags.wanted;
  if (flags.gpu >= 0) wanted.gpu = flags.gpu;
  if (flags.start >= 0) wanted.start = flags.start;
  if (flags.ttl.empty()) return wanted;
  const Result<Seconds> ttl = parse_duration("--ttl", flags.ttl);
  if (!ttl) return failed(ttl.error());
  wanted.ttl_s = ttl->value;
  return wanted;
}

Result<Exit> run_lease(Context& context, const LeaseFlags& flags) {
  const auto wanted = wanted_of(flags);
  if (!wanted) return failed(wanted.error());
  auto desk = open_desk(context, flags);
  if (!desk) return failed(desk.error());
  const auto answer = desk->take(*wanted);
  if (!answer) return failed(by_flag(answer.error()));
  return show_lease(context, flags.output, *answer);
}

Result<Exit> run_return(Context& context, const LeaseFlags& flags) {
  auto desk = open_desk(context, flags);
  if (!desk) return failed(desk.error());
  const auto answer = desk->give_back(flags.wanted.owner);
  if (!answer) return failed(by_flag(answer.error()));
  return show_returned(context, flags.output, flags.wanted.owner, *answer);
}

Result<Exit> run_leases(Context& context, const LeaseFlags& flags) {
  auto desk = open_desk(context, flags);
  if (!desk) return failed(desk.error());
  const auto answer = flags.sweep ? desk->sweep() : desk->list();
  if (!answer) return failed(by_flag(answer.error()));
  return show_leases(context, flags.output, *answer);
}

CLI::Option* add_owner(CLI::App& command, LeaseFlags& flags, const char* about) {
  return command.add_option("--for", flags.wanted.owner, about)->type_name("OWNER")->required();
}

void add_patience(CLI::App& command, LeaseFlags& flags) {
  command
      .add_option("--wait", flags.patience,
                  "How long to wait for another command that changes the node")
      ->type_name("TIME")
      ->default_str(kPatience);
}

}  // namespace

Command add_lease(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("lease", "Hold an instance: make one for OWNER, or say which it has");
  auto flags = std::make_shared<LeaseFlags>();
  command->add_option("--profile", flags->wanted.profile, "The shape, as 3g.40gb")
      ->type_name("PROFILE");
  add_owner(*command, *flags,
            "Who holds it, as slurm:42; OWNER/2 for a second one. Who asks again gets the same");
  within(command->add_option("--gpu", flags->gpu, "On this GPU alone, by index"), 0, 1e6)
      ->type_name("INDEX");
  within(command->add_option("--start", flags->start,
                             "At this memory slice, if it is free; else at the best place"),
         0, 1e6)
      ->type_name("SLICE");
  command->add_flag("--exact", flags->wanted.exact, "At --start or nowhere");
  CLI::Option* ttl = command->add_option("--ttl", flags->ttl, "It ends after this time")
                         ->type_name("TIME");
  within(command->add_option("--while", flags->wanted.while_pid, "It ends with this process"), 1,
         4e9)
      ->type_name("PID")
      ->excludes(ttl);
  command
      ->add_option("--from", flags->wanted.from,
                   "Take over what this owner holds, as it is, instead of making one")
      ->type_name("OWNER");
  add_patience(*command, *flags);
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"text", "json", "env"});
  command->footer(
      "partita lease --profile 3g.40gb --for slurm:$SLURM_JOB_ID --format env\n"
      "partita lease --profile 3g.40gb --gpu 0 --start 4 --exact --for slurm:42\n"
      "partita lease --profile 1g.10gb --for me --while $$\n"
      "partita lease --from slurm:42 --for slurm:43");
  return {command, [flags](Context& context) { return run_lease(context, *flags); }};
}

Command add_return(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("return", "Give back what OWNER, and OWNER/2 ..., hold by `lease`");
  auto flags = std::make_shared<LeaseFlags>();
  add_owner(*command, *flags, "Whose leases; none is no error");
  add_patience(*command, *flags);
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita return --for slurm:42");
  return {command, [flags](Context& context) { return run_return(context, *flags); }};
}

Command add_leases(CLI::App& app) {
  CLI::App* command = app.add_subcommand("leases", "Show which instances are lent, and to whom");
  auto flags = std::make_shared<LeaseFlags>();
  command->add_flag("--sweep", flags->sweep,
                    "First end those that have expired and are not used");
  add_patience(*command, *flags);
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita leases --format json");
  return {command, [flags](Context& context) { return run_leases(context, *flags); }};
}

}  // namespace partita::cli
