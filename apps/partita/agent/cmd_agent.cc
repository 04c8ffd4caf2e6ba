#include <fmt/format.h>


#include "agent/agent_live.h"
#include "commands.h"
#include "flags.h"
#include "node/state_dir.h"
#include "tariff_flags.h"

namespace partita::cli {
namespace {

struct AgentFlags {
  LiveFlags live;
  WeeksFlags weeks;
};

Result<Exit> run_agent(Context& context, const CLI::App& command, AgentFlags& flags) {
  flags.live.driver_said = command.count("--driver") > 0;
  if (flags.weeks.days == 0) {
    if (flags.live.output.svg()) return bad_input("--format", "svg is a picture of --simulate");
    return run_live_agent(context, flags.live);
  }
  flags.weeks.live = flags.live;
  return run_agent_weeks(context, flags.weeks);
}

void add_live_flags(CLI::App& command, LiveFlags& flags) {
  flag(command, "--settings", flags.config);
  flag(command, "--services", flags.services);
  flag(command, "--profiles", flags.profiles);
  add_device_flags(command, flags.device);
  add_state_dir(command, flags.state_dir);
  flag(command, "--listen", flags.listen);
  one_of(flag(command, "--mode", flags.mode), {"automatic", "approve", "observe"});
  flag(command, "--host-queue", flags.host_queue);
  add_fleet_flags(command, flags.fleet);
  flag(command, "--quota", flags.queue.quotas);
  flag(command, "--most-tasks", flags.queue.most_tasks);
  flag(command, "--share", flags.queue.shares);
  add_tariff_flags(command, flags.queue.tariff);
  flag(command, "--once", flags.once);
  flag(command, "--dry-run", flags.dry_run);
}

}  // namespace

Command add_agent(CLI::App& app) {
  auto [command, flags] = adding<AgentFlags>(
      app, "agent",
      "Keep this node as it is wanted: watch rates and health, plan, judge, apply, repair");
  add_live_flags(*command, flags->live);
  within(flag(*command, "--simulate", flags->weeks.days), 1, control::kMostSimDays);
  flag(*command, "--node", flags->weeks.machine);
  flag(*command, "--tasks", flags->weeks.tasks);
  flag(*command, "--calm", flags->weeks.calm);
  within(flag(*command, "--pace", flags->weeks.pace_s), 0, 86'400);
  add_seed(*command, flags->weeks.seed);
  add_output(*command, flags->live.output, {"text", "json", "svg"});
  command->footer(
      "partita agent --settings /etc/partita/agent.yaml\n"
      "partita agent --settings /etc/partita/agent.yaml --fleet http://10.0.0.1:2379\n"
      "partita agent --once --services services.yaml --profiles profiles.csv\n"
      "partita agent --simulate 7 --services services.yaml --profiles profiles.csv\n"
      "partita agent --simulate 7 --services s.yaml --profiles p.csv --pace 60 --listen "
      "127.0.0.1:0");
  return {command,
          [flags, command](Context& context) { return run_agent(context, *command, *flags); }};
}

}  // namespace partita::cli
