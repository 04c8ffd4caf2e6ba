#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json_writer.h"
#include "commands.h"
#include "flags.h"
#include "kernel_commands.h"
#include "kernel_inputs.h"
#include "plan/kernels.h"
#include "planners/mask/joint_plan.h"
#include "planners/mask/right_size.h"
#include "planning.h"
#include "table.h"
#include "verify/kernels.h"

namespace partita::cli {
namespace {

using profile::ModelKernels;

// A row of blocks, one per kernel or several kernels, as high as their mean share of the GPU.
std::string strip(const std::vector<int>& units, int most, int columns) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto width = std::min(static_cast<std::size_t>(std::max(columns, 10)), units.size());
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t first = i * units.size() / width, end = (i + 1) * units.size() / width;
    double sum = 0;
    for (std::size_t k = first; k < end; ++k) sum += units[k];
    const double share = sum / (static_cast<double>(end - first) * most);
    text += kBlocks[std::clamp(static_cast<int>(share * 8), 0, 7)];
  }
  return text;
}

int median(std::vector<int> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// ------------------------------------------------------------------------------------- profile

struct ProfileFlags {
  KernelFlags kernels;
  double tolerance = 0.05;
  Output output;
};

std::string profile_text(const ProfileFlags& flags, const hw::Topology& topology,
                         const std::vector<ModelKernels>& models, int width) {
  Table table{{"MODEL", "KERNELS"}, {}};
  for (const int units : quarters(topology)) table.header.push_back(fmt::format("us on {}", units));
  table.header.insert(table.header.end(), {"LEAST, MEDIAN", "KNEE"});
  std::string strips;
  for (const ModelKernels& model : models) {
    const std::vector<int> least = planners::mask::least_units(model, flags.tolerance);
    std::vector<std::string> row{model.model, fmt::format("{}", model.kernels.size())};
    for (const int units : quarters(topology))
      row.push_back(fmt::format("{:.0f}", model.time_us(units)));
    row.push_back(fmt::format("{}", median(least)));
    row.push_back(fmt::format("{}", planners::mask::knee(model, flags.tolerance)));
    table.rows.push_back(std::move(row));
    strips += fmt::format("\n{}\n{}\n", model.model, strip(least, topology.units(), width));
  }
  return to_string(table) +
         fmt::format("\nLeast {}s within {:g} % of the time on all {}, kernel by kernel:\n{}",
                     topology.unit_name, 100 * flags.tolerance, topology.units(), strips);
}

std::string profile_json(const ProfileFlags& flags, const hw::Topology& topology,
                         const std::vector<ModelKernels>& models) {
  JsonWriter out;
  out.raw("{\"api_version\": \"partita/v1\", \"kind\": \"KernelProfiles\", \"gpu\": ");
  out.string(topology.name).raw(", \"tolerance\": ").number(flags.tolerance);
  out.raw(",\n  \"models\": ");
  out.list(models, "    ", [&](const ModelKernels& model) {
    out.raw("{\"name\": ").string(model.model);
    out.raw(", \"time_us\": ").number(model.time_us(topology.units()));
    out.raw(", \"knee\": ").number(long{planners::mask::knee(model, flags.tolerance)});
    out.raw(",\n     \"kernels\": ");
    out.list(model.kernels, "      ", [&](const profile::KernelProfile& kernel) {
      out.raw("{\"name\": ").string(kernel.name).raw(", \"least_units\": ");
      out.number(long{planners::mask::least_units(kernel, flags.tolerance)});
      out.raw(", \"time_us\": ").number(kernel.on(topology.units())).raw("}");
    });
    out.raw("}");
  });
  return out.raw("}\n").take();
}

Result<Exit> run_profile(Context& context, const ProfileFlags& flags) {
  const Result<hw::Topology> topology = load_topology(flags.kernels.gpu);
  if (!topology) return failed(topology.error());
  const auto models = load_kernels(context, flags.kernels, *topology);
  if (!models) return failed(models.error());
  const std::string content = flags.output.format == "json"
                                  ? profile_json(flags, *topology, *models)
                                  : profile_text(flags, *topology, *models, context.width);
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

Command add_kernels_profile(CLI::App& kernels) {
  CLI::App* command = kernels.add_subcommand(
      "profile", "Show what the kernels of models take, and how many SMs or CUs they need");
  auto flags = std::make_shared<ProfileFlags>();
  add_kernel_flags(*command, flags->kernels);
  within(command->add_option("--tolerance", flags->tolerance,
                             "Share by which a kernel may take longer than on the whole GPU"),
         0, 10)
      ->type_name("SHARE");
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita kernels profile --workers resnet,bert --profiles kernels/ --gpu MI50");
  return {command, [flags](Context& context) { return run_profile(context, *flags); }};
}

// ----------------------------------------------------------------------------------- rightsize

struct SizeFlags {
  KernelFlags kernels;
  double tolerance = 0.05;
  std::string method = "kernel";
  Output output;
};

planners::mask::RightSize right_size(const SizeFlags& flags, const ModelKernels& model) {
  if (flags.method == "critical") return planners::mask::critical_exact(model, flags.tolerance);
  if (flags.method == "critical-greedy")
    return planners::mask::critical_greedy(model, flags.tolerance);
  planners::mask::RightSize size;
  size.units = planners::mask::least_units(model, flags.tolerance);
  if (flags.method == "model") {
    const int knee = planners::mask::knee(model, flags.tolerance);
    std::ranges::fill(size.units, knee);
  }
  for (std::size_t k = 0; k < size.units.size(); ++k) {
    const double time = model.kernels[k].on(size.units[k]);
    size.time_us += time;
    size.unit_us += size.units[k] * time;
  }
  return size;
}

Result<Exit> run_rightsize(Context& context, const SizeFlags& flags) {
  const Result<hw::Topology> topology = load_topology(flags.kernels.gpu);
  if (!topology) return failed(topology.error());
  const auto models = load_kernels(context, flags.kernels, *topology);
  if (!models) return failed(models.error());
  Table table{{"MODEL", "METHOD", "us", "SLOWER", "MEAN UNITS", "SPENT", "PROVEN"}, {}};
  JsonWriter out;
  out.raw("{\"api_version\": \"partita/v1\", \"kind\": \"RightSizes\", \"gpu\": ");
  out.string(topology->name).raw(", \"method\": ").string(flags.method);
  out.raw(", \"tolerance\": ").number(flags.tolerance).raw(",\n  \"models\": ");
  std::string strips;
  out.list(*models, "    ", [&](const ModelKernels& model) {
    const planners::mask::RightSize size = right_size(flags, model);
    const double whole = model.time_us(topology->units());
    const double spent = size.unit_us / (whole * topology->units());
    table.rows.push_back({model.model, flags.method, fmt::format("{:.0f}", size.time_us),
                          fmt::format("{:.2f} %", 100 * (size.time_us / whole - 1)),
                          fmt::format("{:.1f}", size.unit_us / size.time_us),
                          fmt::format("{:.1f} %", 100 * spent), size.optimal ? "yes" : "-"});
    strips +=
        fmt::format("\n{}\n{}\n", model.model, strip(size.units, topology->units(), context.width));
    out.raw("{\"name\": ").string(model.model).raw(", \"time_us\": ").number(size.time_us);
    out.raw(", \"unit_us\": ").number(size.unit_us).raw(", \"optimal\": ").boolean(size.optimal);
    out.raw(fmt::format(",\n     \"units\": [{}]}}", fmt::join(size.units, ",")));
  });
  out.raw("}\n");
  const std::string text =
      to_string(table) + "\nSPENT: units x time against the whole GPU. Units kernel by kernel:\n" +
      strips;
  const std::string content = flags.output.format == "json" ? out.take() : text;
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

Command add_kernels_rightsize(CLI::App& kernels) {
  CLI::App* command =
      kernels.add_subcommand("rightsize", "Choose how many SMs or CUs each kernel shall have");
  auto flags = std::make_shared<SizeFlags>();
  add_kernel_flags(*command, flags->kernels);
  one_of(command->add_option("--method", flags->method,
                             "kernel: the fewest units per kernel within the tolerance (KRISP); "
                             "model: the same number for all kernels; critical: the least units x "
                             "time with the whole model within the tolerance, exactly; "
                             "critical-greedy: Chow's Algorithm 2"),
         {"kernel", "model", "critical", "critical-greedy"})
      ->default_str(flags->method);
  within(command->add_option("--tolerance", flags->tolerance,
                             "Share by which a kernel or the model may take longer than on the "
                             "whole GPU"),
         0, 10)
      ->type_name("SHARE");
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels rightsize --workers resnet --profiles kernels/ --method critical");
  return {command, [flags](Context& context) { return run_rightsize(context, *flags); }};
}

// ---------------------------------------------------------------------------------------- plan

struct PlanFlags {
  KernelFlags kernels;
  std::string configs, overlap = "others";
  int switches = 14;
  double switch_cost = 0;
  bool curve = false;
  Output output;
};

plan::KernelProblem problem_of(const PlanFlags& flags, const hw::Topology& topology,
                               const std::vector<int>& configs,
                               const std::vector<ModelKernels>& models) {
  plan::KernelProblem problem;
  problem.total_units = topology.units();
  problem.switches = flags.switches;
  problem.switch_cost = flags.switch_cost;
  problem.overlap = flags.overlap == "literal" ? plan::Overlap::literal : plan::Overlap::others;
  for (const ModelKernels& model : models) {
    plan::KernelTimes times{configs, {}};
    for (const profile::KernelProfile& kernel : model.kernels)
      for (const int units : configs) times.time.push_back(kernel.on(units));
    problem.workers.push_back({model.model, std::move(times)});
  }
  return problem;
}

std::string plan_text(const plan::KernelProblem& problem, const plan::KernelPlan& plan, int width) {
  Table table{{"WORKER", "KERNELS", "SWITCHES", "MEAN UNITS", "ALONE us", "PREDICTED us"}, {}};
  std::string strips;
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const plan::Grouping& one = plan.workers[w];
    const plan::KernelWorker& worker = problem.workers[w];
    table.rows.push_back({worker.name, fmt::format("{}", one.option.size()),
                          fmt::format("{}", one.switches), fmt::format("{:.1f}", one.mean_units),
                          fmt::format("{:.0f}", one.time),
                          fmt::format("{:.0f}", plan::predicted_time(problem, plan, w))});
    std::vector<int> units;
    for (const std::uint8_t option : one.option) units.push_back(worker.times.units[option]);
    strips += fmt::format("\n{}\n{}\n", worker.name, strip(units, problem.total_units, width));
  }
  return to_string(table) +
         fmt::format("\nobjective {:.3f} us, bound {:.3f}{}\n", plan.objective, plan.bound,
                     plan.optimal ? ": optimal" : "") +
         strips;
}

std::string curve_text(const std::vector<planners::mask::JointPlan>& curve) {
  Table table{{"MOST SWITCHES", "OBJECTIVE us", "SWITCHES", "PROVEN"}, {}};
  for (std::size_t s = 0; s < curve.size(); ++s) {
    const plan::KernelPlan& plan = curve[s].plan;
    int switches = 0;
    for (const plan::Grouping& one : plan.workers) switches += one.switches;
    table.rows.push_back({fmt::format("{}", s), fmt::format("{:.3f}", plan.objective),
                          fmt::format("{}", switches), plan.optimal ? "yes" : "no"});
  }
  return "\n" + to_string(table);
}

std::string with_curve(std::string json, const std::vector<planners::mask::JointPlan>& curve) {
  JsonWriter out;
  out.raw(",\n  \"curve\": ");
  std::size_t switches = 0;
  out.list(curve, "    ", [&](const planners::mask::JointPlan& one) {
    out.raw("{\"max_switches\": ").number(static_cast<long>(switches++));
    out.raw(", \"objective\": ").number(one.plan.objective);
    out.raw(", \"optimal\": ").boolean(one.plan.optimal).raw("}");
  });
  json.insert(json.rfind('}'), out.take());
  return json;
}

Result<Exit> run_plan(Context& context, const PlanFlags& flags) {
  const Result<hw::Topology> topology = load_topology(flags.kernels.gpu);
  if (!topology) return failed(topology.error());
  Result<std::vector<int>> configs = quarters(*topology);
  if (!flags.configs.empty()) configs = parse_counts("--configs", flags.configs, topology->units());
  if (!configs) return failed(configs.error());
  if (configs->size() > plan::kMaxOptions)
    return bad_input("--configs", fmt::format("more than {} numbers", plan::kMaxOptions));
  const auto models = load_kernels(context, flags.kernels, *topology);
  if (!models) return failed(models.error());
  const plan::KernelProblem problem = problem_of(flags, *topology, *configs, *models);
  const plan::KernelPlan plan = planners::mask::plan_jointly(problem).plan;
  if (const auto violations = verify::verify(problem, plan); !violations.empty())
    return environment_error("internal error",
                             reasons_text("the judge refuses the plan", violations));
  std::vector<planners::mask::JointPlan> curve;
  if (flags.curve) curve = planners::mask::switch_curve(problem);
  std::string content = flags.output.format == "json"
                            ? plan::kernel_plan_json(problem, plan, topology->name)
                            : plan_text(problem, plan, context.width);
  if (flags.curve)
    content = flags.output.format == "json" ? with_curve(std::move(content), curve)
                                            : content + curve_text(curve);
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

Command add_kernels_plan(CLI::App& kernels) {
  CLI::App* command = kernels.add_subcommand(
      "plan",
      "Give groups of kernels of co-located models their SMs or CUs: ECLIP's problem, exactly");
  auto flags = std::make_shared<PlanFlags>();
  add_kernel_flags(*command, flags->kernels);
  command
      ->add_option("--configs", flags->configs,
                   "Numbers of units that a kernel may have, ascending (default: a quarter, half, "
                   "three quarters and all of the GPU)")
      ->type_name("N,N,...");
  within(command->add_option("--switches", flags->switches,
                             "How often the number may change within a request of a worker"),
         0, 1000)
      ->type_name("N")
      ->default_str("14");
  within(
      command->add_option("--switch-cost", flags->switch_cost, "Microseconds that a change takes"),
      0, 1e9)
      ->type_name("US");
  one_of(
      command->add_option("--overlap", flags->overlap,
                          "What slows a worker down. others: the mean units of the others, so "
                          "that two workers on all units take twice as long; literal: its own as "
                          "well, as ECLIP prints it"),
      {"others", "literal"})
      ->default_str(flags->overlap);
  command->add_flag("--curve", flags->curve, "Also the best for every smaller number of switches");
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels plan --workers vgg,resnet,alexnet --profiles kernels/ --gpu MI50 "
      "--configs 15,30,45,60 --switches 14");
  return {command, [flags](Context& context) { return run_plan(context, *flags); }};
}

}  // namespace

Command add_kernels(CLI::App& app) {
  CLI::App* kernels = app.add_subcommand(
      "kernels", "Size and plan the SMs or CUs of the kernels of co-located models");
  kernels->require_subcommand(1);
  const std::vector<Command> commands = {
      add_kernels_profile(*kernels), add_kernels_rightsize(*kernels), add_kernels_plan(*kernels),
      add_kernels_simulate(*kernels)};
  kernels->footer("partita kernels plan --workers vgg,resnet --profiles kernels/ --gpu MI50");
  return {kernels, [commands](Context& context) -> Result<Exit> {
            for (const Command& command : commands) {
              if (command.app->parsed()) return command.run(context);
            }
            return bad_input("kernels", "a subcommand is needed");
          }};
}

}  // namespace partita::cli
