#include <fmt/format.h>

#include <algorithm>

#include "base/form.h"
#include "base/table.h"
#include "base/terminal.h"
#include "lanes/lane_runs.h"
#include "decide/kernel_policies.h"
#include "flags.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"
#include "kernels/lane_drivers.h"
#include "progress.h"

namespace partita::cli {
namespace {

using carry::LaneOutcome;
using profile::ModelKernels;

struct LaneRunFlags {
  decide::KernelNames kernels;
  LaneDriverFlags driver;
  std::string policies = "mps,static,eclip", configs;
  int requests = 20, repeats = 3, switches = 14;
  double scale = 1, tolerance = 0.05;
  Output output;
};

// ----------------------------------------------------------------------------------------- runs

Result<std::vector<LaneOutcome>> run_all(Context& context, const LaneRunFlags& flags,
                                         const decide::PolicyInputs& inputs,
                                         OpenLaneDriver& device) {
  const auto kernels = TRY(carry::stand_ins(*device.driver, *device.kernels, context.clock,
                                            inputs.workers, {flags.tolerance, flags.scale}));
  const std::vector<std::string> policies = split(flags.policies, ',');
  std::vector<std::vector<exec::LaneWorker>> workers;
  for (const std::string& policy : policies) {
    const auto masks = TRY(decide::kernel_policy(policy, inputs));
    auto made = TRY(carry::on_lanes(policy, masks, inputs.topology.units(), kernels));
    workers.push_back(std::move(made));
  }
  Progress progress(context);
  std::vector<std::vector<exec::LaneWorkersRun>> runs(policies.size());
  for (int repeat = 0; repeat < flags.repeats; ++repeat) {
    for (std::size_t p = 0; p < policies.size(); ++p) {  // in turns, so that all see the same noise
      progress.show(fmt::format("{} ({} of {}) ...", policies[p], repeat + 1, flags.repeats));
      auto run = TRY(exec::run_workers(workers[p], *device.driver, context.clock, flags.requests));
      runs[p].push_back(std::move(run));
    }
  }
  std::vector<LaneOutcome> outcomes;
  for (std::size_t p = 0; p < policies.size(); ++p)
    outcomes.push_back(carry::outcome_of(policies[p], runs[p]));
  return outcomes;
}

// --------------------------------------------------------------------------------------- output

std::string text_of(const std::vector<LaneOutcome>& outcomes, const decide::PolicyInputs& inputs,
                    const LaneRunFlags& flags, const device::LaneDriverInfo& info) {
  Table table{{"POLICY", "RPS", "x FIRST", "WORST p95 ms", "LANES", "SWITCHES", "WAITED %"}, {}};
  for (const ModelKernels& worker : inputs.workers) table.header.push_back(worker.model);
  for (const LaneOutcome& one : outcomes) {
    table.rows.push_back({one.policy, fmt::format("{:.1f}", one.total()),
                          fmt::format("{:.2f}", one.total() / outcomes.front().total()),
                          fmt::format("{:.2f}", *std::ranges::max_element(one.p95_ms)),
                          fmt::format("{}", one.lanes), fmt::format("{:.1f}", one.switches),
                          fmt::format("{:.0f}", 100 * one.waits)});
    for (const double rps : one.rps) table.rows.back().push_back(fmt::format("{:.1f}", rps));
  }
  return fmt::format(
             "{} on {} ({}): {} each, medians of {}\nKernels are stand-ins "
             "that take the profiled times, x {:g}; columns of workers: requests per second\n\n",
             count_text(std::ssize(inputs.workers), "worker"), info.topology.name, info.name,
             count_text(flags.requests, "request"), count_text(flags.repeats, "run"), flags.scale) +
         to_string(table);
}

std::string json_of(const std::vector<LaneOutcome>& outcomes, const decide::PolicyInputs& inputs,
                    const LaneRunFlags& flags, const device::LaneDriverInfo& info) {
  const auto outcome = [&](Form& f, const LaneOutcome& one) {
    const auto worker = [&](Form& row, std::size_t w) {
      row.told("name", inputs.workers[w].model);
      row.told("rps", one.rps[w]);
      row.told("p95_ms", one.p95_ms[w]);
    };
    f.told("policy", one.policy);
    f.told("rps", one.total());
    f.told("lanes", one.lanes);
    f.told("switches", one.switches);
    f.told("waited", one.waits);
    f.line("     ").rows("workers", one.rps.size(), worker, {});
  };
  return write_form([&](Form& f) {
    f.document("KernelRun");
    f.told("driver", info.name);
    f.told("gpu", info.topology.name);
    f.line("  ").told("requests", flags.requests);
    f.told("repeats", flags.repeats);
    f.told("scale", flags.scale);
    f.line("  ").rows("policies", outcomes, outcome, {.indent = "    "});
  });
}

// Live policies choose a mask when a kernel starts; lanes are made before.
Result<void> check_lane_policies(const std::string& policies) {
  static const std::vector<std::string> kFixed{"mps", "static", "model", "eclip"};
  for (const std::string& policy : split(policies, ','))
    if (std::ranges::find(kFixed, policy) == kFixed.end() && !decide::switches_of(policy))
      return bad_input("--policies", fmt::format("'{}': mps, static, model, eclip and eclip:N have "
                                                 "masks that can be made beforehand",
                                                 policy));
  return {};
}

Result<Exit> run_kernels_run(Context& context, LaneRunFlags flags) {
  TRY(check_lane_policies(flags.policies));
  const hw::Topology topology = TRY(decide::load_topology(flags.kernels.gpu));
  const int atom = TRY(decide::load_atom(topology, flags.kernels.atom));
  const auto configs = TRY(decide::load_configs(flags.configs, topology, atom));
  const auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  flags.driver.gpu = flags.kernels.gpu;
  flags.driver.atom = atom;
  OpenLaneDriver device = TRY(open_lane_driver(flags.driver));
  const auto info = TRY(device.driver->info());
  if (info.topology.units() != topology.units())
    return bad_input("--gpu",
                     fmt::format("{} has {} units, the device {}; --driver cpu_mask imitates any",
                                 topology.name, topology.units(), info.topology.units()));
  const decide::PolicyInputs inputs{
      topology,        models, atom,    hw::mask_sizes(topology, atom),
      flags.tolerance, {},     configs, flags.switches};
  const auto outcomes = TRY(run_all(context, flags, inputs, device));
  return finish(context, flags.output,
                flags.output.json() ? json_of(outcomes, inputs, flags, info)
                                    : text_of(outcomes, inputs, flags, info));
}

}  // namespace

Command add_kernels_run(CLI::App& kernels) {
  auto [command, flags] = adding<LaneRunFlags>(
      kernels, "run",
      "Run co-located workers on real lanes, stand-ins for their kernels; compare policies");
  add_kernel_flags(*command, flags->kernels);
  add_lane_driver_flags(*command, flags->driver);
  flag(*command, "--policies", flags->policies,
       "The policies, separated by commas: mps, static, model, eclip, eclip:N; RPS are compared "
       "with the first")
      ->default_str(flags->policies);
  within(flag(*command, "--requests", flags->requests), 1, 1'000'000)->default_str("20");
  within(flag(*command, "--repeats", flags->repeats), 1, 1000)->default_str("3");
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  within(flag(*command, "--scale", flags->scale), 1e-3, 1e6)->default_str("1");
  within(flag(*command, "--tolerance", flags->tolerance), 0, 10)->default_str("0.05");
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels run --workers vgg,resnet --profiles kernels/ --gpu 4x15 --driver cpu_mask");
  return {command, [flags](Context& context) { return run_kernels_run(context, *flags); }};
}

}  // namespace partita::cli
