#include <fmt/format.h>

#include <memory>

#include "agent/agent_live.h"
#include "agent/agent_weeks.h"
#include "commands.h"
#include "flags.h"
#include "node/state_dir.h"

namespace partita::cli {
namespace {

struct AgentFlags {
  LiveFlags live;
  WeeksFlags weeks;
};

Result<Exit> run_agent(Context& context, const CLI::App& command, AgentFlags& flags) {
  flags.live.driver_said = command.count("--driver") > 0;
  if (flags.weeks.days == 0) {
    if (flags.live.output.format == "svg")
      return bad_input("--format", "svg is a picture of --simulate");
    return run_live_agent(context, flags.live);
  }
  flags.weeks.live = flags.live;
  return run_agent_weeks(context, flags.weeks);
}

void add_live_flags(CLI::App& command, LiveFlags& flags) {
  command
      .add_option("--config", flags.config,
                  "Settings of the agent (docs/agent.md); its flags below are stronger")
      ->type_name("FILE");
  command
      .add_option("--services", flags.services,
                  "What is wanted: a services file, read again at every look")
      ->type_name("FILE");
  command.add_option("--profiles", flags.profiles, "Profiles for the GPU models of the node")
      ->type_name("PATH");
  add_device_flags(command, flags.device);
  add_state_dir(command, flags.state_dir);
  command
      .add_option("--listen", flags.listen,
                  "Also serve API and web page on this address, as 127.0.0.1:8123 (docs/api.md)")
      ->type_name("HOST:PORT");
  one_of(command.add_option("--mode", flags.mode,
                            "How changes come about: at once, when a person approves, never"),
         {"automatic", "approve", "observe"});
  command.add_flag("--once", flags.once,
                   "Look once, print what is seen and what would be done, and end");
  command.add_flag("--dry-run", flags.dry_run,
                   "Keep looking and say what would be changed; nothing is changed or kept");
}

}  // namespace

Command add_agent(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "agent",
      "Keep this node as it is wanted: watch rates and health, plan, judge, apply, repair");
  auto flags = std::make_shared<AgentFlags>();
  add_live_flags(*command, flags->live);
  within(command->add_option("--simulate", flags->weeks.days,
                             "Instead: so many days of a simulated node under changing traffic, "
                             "in seconds"),
         1, control::kMostSimDays)
      ->type_name("DAYS");
  command
      ->add_option("--node", flags->weeks.machine,
                   "--simulate: description of the node (default: --machine, else 8 A100-80GB)")
      ->type_name("FILE");
  command
      ->add_option("--tasks", flags->weeks.tasks,
                   "--simulate: a batch (tasks file) that is handed in each day at 01:00; "
                   "policy.batch says which GPUs it gets")
      ->type_name("FILE");
  command->add_flag("--calm", flags->weeks.calm,
                    "--simulate: nothing breaks; only the traffic changes");
  within(command->add_option("--pace", flags->weeks.pace_s,
                             "--simulate: seconds that a day takes, so that people can look on "
                             "with --listen (0: as fast as it goes)"),
         0, 86'400)
      ->type_name("SECONDS");
  add_seed(*command, flags->weeks.seed);
  add_output(*command, flags->live.output, {"text", "json", "svg"});
  command->footer(
      "partita agent --config /etc/partita/agent.yaml\n"
      "partita agent --once --services services.yaml --profiles profiles.csv\n"
      "partita agent --simulate 7 --services services.yaml --profiles profiles.csv\n"
      "partita agent --simulate 7 --services s.yaml --profiles p.csv --pace 60 --listen "
      "127.0.0.1:0");
  return {command,
          [flags, command](Context& context) { return run_agent(context, *command, *flags); }};
}

}  // namespace partita::cli
