#include <fmt/format.h>


#include "base/parse_number.h"
#include "base/split.h"
#include "commands.h"
#include "decide/kernel_inputs.h"
#include "energy/power_commands.h"
#include "flags.h"
#include "forms/power_forms.h"
#include "planners/power/modelled.h"

namespace partita::cli {
namespace {

struct TableFlags {
  decide::KernelNames kernels;
  power::ClockModel model;
  double idle = 15, unit_idle = 1, unit_busy = 2;
  std::string clocks, output;
};

Result<std::vector<Mhz>> clocks_of(const std::string& text, const std::vector<Mhz>& standard) {
  if (text.empty()) return standard;
  std::vector<Mhz> clocks;
  for (const std::string& word : split(text, ',')) {
    const auto value = parse_number<double>(word);
    if (!value || !(*value >= 50 && *value <= 10'000) ||
        (!clocks.empty() && *value <= clocks.back().value))
      return bad_input("--clocks", fmt::format("'{}' is not a list of ascending MHz, 50 to 10000, "
                                               "separated by commas",
                                               text));
    clocks.push_back({*value});
  }
  if (clocks.size() > plan::kMaxClocks)
    return bad_input("--clocks", fmt::format("at most {} clocks", plan::kMaxClocks));
  return clocks;
}

Result<Exit> run_table(Context& context, const TableFlags& flags) {
  const auto topology = TRY(decide::load_topology(flags.kernels.gpu));
  auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  power::ClockModel model = flags.model;
  model.clocks = TRY(clocks_of(flags.clocks, model.clocks));
  model.idle = {flags.idle};
  model.unit_idle = {flags.unit_idle};
  model.unit_busy = {flags.unit_busy};
  const plan::ResponseTable table =
      power::modelled_table(topology.name, topology.units_in, models, model);
  return finish(context, {flags.output, "csv"}, forms::power_table_csv(table));
}

CLI::Option* add_watts(CLI::App& command, const char* flag, double& value, const char* help) {
  return within(command.add_option(flag, value, help), 0, 5'000)
      ->type_name("W")
      ->default_str(fmt::format("{:g}", value));
}

}  // namespace

Command add_power_table(CLI::App& power) {
  auto [command, flags] = adding<TableFlags>(
      power, "table",
      "Model a response table from kernel times: latency, rate and power by clock and units");
  flag(*command, "--models", flags->kernels.workers)->required();
  flag(*command, "--kernel-profiles", flags->kernels.profiles)->required();
  flag(*command, "--topology", flags->kernels.gpu)->default_str(flags->kernels.gpu);
  flag(*command, "--clocks", flags->clocks);
  within(flag(*command, "--memory-share", flags->model.memory_share), 0, 1)->default_str("0.2");
  within(flag(*command, "--board-idle", flags->idle), 0, 5'000)
      ->default_str(fmt::format("{:g}", flags->idle));
  add_watts(*command, "--unit-idle", flags->unit_idle,
            "A unit that is clocked and has no work, highest clock");
  add_watts(*command, "--unit-busy", flags->unit_busy, "What a busy unit takes more");
  within(flag(*command, "--unit-step", flags->model.unit_step), 1, 512)->default_str("1");
  add_output_file(*command, flags->output);
  command->footer(
      "partita power table --models vgg,bert --profiles data/published/reef --gpu MI50 -o "
      "mi50.csv");
  return {command, [flags](Context& context) { return run_table(context, *flags); }};
}

void add_power_flags(CLI::App& command, PowerFlags& flags) {
  flag(command, "--services", flags.files.services)->required();
  flag(command, "--table", flags.files.table)->required();
  flag(command, "--topology", flags.files.gpu)->default_str(flags.files.gpu);
  one_of(flag(command, "--gating", flags.gating), {"none", "group", "unit"})
      ->default_str(flags.gating);
  one_of(flag(command, "--promise", flags.promise), {"queueing", "execution"})
      ->default_str(flags.promise);
  within(flag(command, "--cap", flags.cap), 1, 5'000);
}

Result<plan::PowerProblem> load_power(Context& context, const PowerFlags& flags) {
  auto problem = TRY(decide::load_power_problem(context.files, flags.files));
  problem.gating = flags.gating == "unit"    ? plan::Gating::unit
                   : flags.gating == "group" ? plan::Gating::group
                                             : plan::Gating::none;
  problem.promise =
      flags.promise == "execution" ? plan::PowerPromise::execution : plan::PowerPromise::queueing;
  if (flags.cap > 0) problem.cap = Watts{flags.cap};
  return problem;
}

Command add_power(CLI::App& app) {
  CLI::App* power = app.add_subcommand(
      "power", "Plan clocks, caps and shares of GPUs for the least watts within the SLOs");
  return group_of(power, {add_power_table(*power), add_power_plan(*power), add_power_verify(*power),
                          add_power_simulate(*power), add_power_run(*power), add_power_set(*power),
                          add_power_restore(*power)});
}

}  // namespace partita::cli
