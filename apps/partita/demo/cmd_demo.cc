#include <map>
#include <set>

#include "act/apply.h"
#include "act/assignment.h"
#include "act/change_forms.h"
#include "base/input_output.h"
#include "commands.h"
#include "decide/batch_report.h"
#include "decide/comparison_report.h"
#include "decide/energy.h"
#include "decide/serving.h"
#include "decide/serving_report.h"
#include "decide/simulate.h"
#include "device/observe/sampler.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "forms/batch_forms.h"
#include "forms/serving_forms.h"
#include "plan/judged.h"
#include "plan/serving.h"
#include "profile/law.h"
#include "progress.h"
#include "serve/demo_serve.h"

namespace partita::cli {
namespace {

using JudgedPlan = plan::Judged<plan::ServingPlan>;

constexpr char kState[] = "state", kAssignment[] = "state/assignment.json";
constexpr char kTelemetry[] = "telemetry.jsonl";
constexpr int kQuiet = 5, kWatched = 60;  // seconds
constexpr std::int64_t kOneSecondNs = 1'000'000'000;

// The MIG devices of a node. Their UUIDs are new at every creation.
Result<std::set<std::string>> devices_of(device::NodeDriver& driver) {
  const device::NodeState state = TRY(device::read_node(driver));
  std::set<std::string> uuids;
  for (const device::GpuState& gpu : state.gpus)
    for (const device::Instance& instance : gpu.instances) uuids.insert(instance.uuid());
  return uuids;
}

plan::ServingProblem with_more_traffic(plan::ServingProblem problem) {
  for (std::size_t s = 0; s < problem.services.size(); s += 3)
    problem.services[s].rate.value *= 1.25;
  return problem;
}

// The least change of the current plan that serves the problem.
Result<JudgedPlan> next_plan(Context& context, const plan::ServingProblem& problem,
                             const plan::ServingPlan& current) {
  auto next = TRY(decide::make_plan_again(problem, current, std::nullopt,
                                          {.watch = Progress(context).watch()}));
  if (!next.made.plan)
    return environment_error("demo", decide::reasons_text("no plan:", next.made.refusals));
  return *std::move(next.made.plan);
}

struct DevicePlace {
  int gpu = 0, gi_id = 0, ci_id = 0;
};

// Where the MIG device with this UUID is.
std::optional<DevicePlace> place_of(const drivers::sim::Machine& machine, const std::string& uuid) {
  for (std::size_t gpu = 0; gpu < machine.gpus().size(); ++gpu)
    for (const drivers::sim::SimInstance& instance : machine.gpus()[gpu].instances)
      for (const drivers::sim::SimComputeInstance& compute : instance.compute)
        if (compute.uuid == uuid)
          return DevicePlace{static_cast<int>(gpu), instance.gi_id, compute.ci_id};
  return std::nullopt;
}

// The part of the demo that happens on a node: a plan applied to a simulated one, then the plan for
// more traffic, then what its tenants cost. In memory and in virtual time; nothing of it outlives
// the object.
class DemoNode {
 public:
  DemoNode(const hw::GpuModel& model, int gpus)
      : machine_(drivers::sim::own_machine(drivers::sim::Machine({{&model, gpus, true}}, "demo"),
                                           clock_, 0)),
        driver_(*machine_) {}

  // Applies the plan of the problem, then plans anew with every third service's rate a quarter
  // higher, applies that, and shows what changed and what did not.
  Result<void> show_change(Context& context, const plan::ServingProblem& problem,
                           const JudgedPlan& plan) {
    const actuate::Doors doors{driver_, disk_, clock_, hw::builtin_catalogue(), kState};
    const auto apply = [&](const JudgedPlan& wanted) {
      return actuate::apply(doors, actuate::wanted_of(wanted), {}, [](const auto&) {});
    };

    const auto first = TRY(apply(plan));
    say(context,
        fmt::format("{} instances created in {} steps; NVIDIA's driver would take {:.1f} s\n",
                    first.change.create.size(), first.change.steps.size(),
                    first.change.predicted.value));
    const auto before = TRY(devices_of(driver_));

    problem_ = with_more_traffic(problem);
    const JudgedPlan next = TRY(next_plan(context, problem_, *plan));
    const auto change = TRY(actuate::preview(doors, actuate::wanted_of(next), {}));
    say(context,
        fmt::format(
            "\nEvery third service gets 25 % more requests; {} GPUs are enough. The "
            "change:\n\n{}\n{} steps, {:.1f} s of driver time, {} temporary stand-ins\n\n{}\n",
            next->gpus.size(), actuate::change_summary(change), change.steps.size(),
            change.predicted.value, change.temporary.size(),
            actuate::affected_text(change.affected)));
    TRY(apply(next));
    const auto after = TRY(devices_of(driver_));
    const auto stayed = std::count_if(before.begin(), before.end(), [&](const std::string& uuid) {
      return after.contains(uuid);
    });
    say(context,
        fmt::format("Done: {} of {} instances were never touched.\n", stayed, before.size()));
    return {};
  }
  // A minute of work on what was applied last, recorded, and the joules told apart by service.
  Result<void> show_energy(Context& context) {
    const auto quiet = TRY(watch(kQuiet));  // what the boards take without work
    TRY(start_workers());
    const auto busy = TRY(watch(kWatched));
    TRY(disk_.write_atomic(kTelemetry, quiet + busy));
    decide::EnergyQuestion question;
    question.telemetry = kTelemetry;
    question.plan = kAssignment;
    const auto report = TRY(decide::attribute_energy(disk_, question));
    say(context, energy::report_text(report));
    return {};
  }

 private:
  // On every assigned device a process that is as busy as the service's rate asks for.
  Result<void> start_workers() {
    const auto text = TRY(disk_.read(kAssignment));
    const auto assignment = TRY(actuate::parse_assignment(kAssignment, text));
    std::map<std::string, double> rates, capacities;
    for (const plan::Service& service : problem_.services) rates[service.name] = service.rate.value;
    for (const actuate::AssignedSegment& one : assignment.segments)
      capacities[one.service] += one.throughput_rps;
    Result<void> attached;
    const auto attach = [&](drivers::sim::Machine& machine) {
      std::int64_t pid = 1000;
      for (const actuate::AssignedSegment& one : assignment.segments)
        if (const auto place = place_of(machine, one.device); place && attached)
          attached = machine.attach(
              place->gpu,
              {++pid, one.service, place->gi_id, place->ci_id, false,
               std::min(1.0, rates[one.service] / std::max(capacities[one.service], 1.0))});
    };
    TRY(machine_->with(attach));
    return attached;
  }
  // A line per second of what the boards say.
  Result<std::string> watch(int seconds) {
    std::string log;
    for (int second = 0; second < seconds; ++second) {
      const auto sample = TRY(
          observe::take_sample(driver_, Seconds{static_cast<double>(clock_.now) / kOneSecondNs}));
      log += telemetry::write_line(sample);
      clock_.sleep_ns(kOneSecondNs);
    }
    return log;
  }

  ManualClock clock_;
  MemoryFiles disk_;
  std::unique_ptr<drivers::sim::SharedMachine> machine_;
  drivers::sim::SimDriver driver_;
  plan::ServingProblem problem_;  // what was applied last serves it
};

// Compiled in, so that the demo runs from a fresh clone and from an installed binary alike.
constexpr std::string_view kServices =
#include "demo_services.inc"
    ;
constexpr std::string_view kLaws =
#include "demo_laws.inc"
    ;
constexpr std::string_view kTasks =
#include "demo_tasks.inc"
    ;
constexpr char kServicesFile[] = "data/scenarios/s4.yaml";
constexpr char kLawsFile[] = "data/profiles/a100-80gb.json";
constexpr char kTasksFile[] = "data/batches/rodinia-a30.csv";
constexpr char kGpu[] = "A100-80GB";
constexpr char kBatchGpu[] = "A30-24GB";
constexpr int kNodeGpus = 8;
constexpr char kParvagpuRule[] = "execution:0.45";  // what ParvaGPU's released code does

struct DemoFlags {
  std::string picture;  // -o
  std::uint64_t seed = 1;
};

void headline(Context& context, int step, const std::string& text) {
  const Painter painter(context.colour);
  say(context, fmt::format("\n{}\n\n", painter.bold(fmt::format("{}. {}", step, text))));
}

Result<plan::ServingProblem> demo_problem() {
  plan::ServingProblem problem;
  problem.services = TRY(forms::parse_services(kServicesFile, kServices));
  const hw::GpuModel* gpu = TRY(hw::builtin_catalogue().get(kGpu));
  const auto laws = TRY(profile::parse_laws(kLawsFile, kLaws));
  profile::ProfileTable table = TRY(profile::table_from_laws(laws, *gpu));
  problem.fleet.push_back({*gpu, std::move(table), std::nullopt, 1});
  return problem;
}

std::string services_table(const plan::ServingProblem& problem) {
  Table table = headed("SERVICE|MODEL|req/s|SLO ms");
  for (const plan::Service& service : problem.services)
    table.add("{}|{}|{:g}|{:g}", service.name, service.model, service.rate.value,
              service.slo.value);
  return to_string(table);
}

// Beside the repository's other products when there is a build/.
std::string place_of_picture(Context& context, const std::string& name) {
  return context.files.is_directory("build") ? "build/" + name : name;
}

void write_picture(Context& context, const DemoFlags& flags, const plan::ServingPlan& plan) {
  const std::string file =
      flags.picture.empty() ? place_of_picture(context, "demo-plan.svg") : flags.picture;
  const auto written = write_output(file, forms::plan_svg(plan, hw::builtin_catalogue()));
  // The demo goes on without its picture, for instance in a directory that cannot be written.
  if (written)
    say(context, fmt::format("\nThe same as a picture: {}\n", file));
  else
    complain(context, "no picture: " + to_string(written.error()));
}

Result<JudgedPlan> show_plan(Context& context, const DemoFlags& flags,
                             const plan::ServingProblem& problem) {
  const auto planner = TRY(decide::find_planner("demo", "exact"));
  auto made = TRY(decide::make_plan(*planner, problem, {.watch = Progress(context).watch()}));
  if (!made.plan) return environment_error("demo", decide::reasons_text("no plan:", made.refusals));
  say(context,
      forms::plan_text(**made.plan, hw::builtin_catalogue(),
                       {.colour = context.colour, .explain = true, .width = context.width}));
  write_picture(context, flags, **made.plan);
  return *std::move(made.plan);
}

Result<Exit> show_traffic(Context& context, const DemoFlags& flags,
                          const plan::ServingProblem& problem, const JudgedPlan& plan) {
  sim::ServingOptions options;
  options.seed = flags.seed;
  const auto timed = TRY(decide::simulate(problem, plan, options));
  say(context, decide::report_text(problem, timed.report, options));
  return Exit::done;
}

Result<Exit> show_comparison(Context& context, const DemoFlags& flags,
                             const plan::ServingProblem& problem) {
  const auto contestants = TRY(decide::parse_contestants(
      "demo", fmt::format("exact,exact@{0},parvagpu@{0}", kParvagpuRule), problem.rule));
  decide::CompareOptions options;
  options.seed = flags.seed;
  const auto standings =
      TRY(decide::compare(problem, contestants, options, Progress(context).watch()));
  say(context, decide::comparison_text(standings, options));
  return Exit::done;
}

Result<Exit> show_batch(Context& context, const DemoFlags& flags) {
  const hw::GpuModel* gpu = TRY(hw::builtin_catalogue().get(kBatchGpu));
  const plan::BatchProblem problem = TRY(forms::parse_tasks(kTasksFile, kTasks, {*gpu}, {0}));
  const auto contestants = TRY(decide::parse_batch_contestants("demo", "best,far,miso,fixed-best"));
  const auto comparison = TRY(decide::compare_schedulers(problem, contestants, {.seed = flags.seed},
                                                         Progress(context).watch()));
  forms::GanttOptions gantt;
  gantt.colour = context.colour;
  gantt.width = context.width;
  const std::vector<plan::BatchSchedule> schedules = decide::schedules_of(comparison);
  if (!schedules.empty())
    say(context,
        forms::schedule_text(schedules.front(), {}, hw::builtin_catalogue(), gantt) + "\n");
  say(context, decide::batch_comparison_text(problem, comparison));
  return Exit::done;
}

Result<Exit> run_demo(Context& context, const DemoFlags& flags) {
  const plan::ServingProblem problem = TRY(demo_problem());
  say(context, fmt::format("Partita in eight steps. No GPU is needed: {} performance laws were "
                           "fitted to measurements\non an {}; the services are scenario S4 of the "
                           "ParvaGPU paper.\n",
                           problem.fleet[0].profiles.size(), kGpu));
  headline(context, 1, "The services: requests per second, each with a latency objective");
  say(context, services_table(problem));
  headline(context, 2, "The plan, and what no plan can go below");
  const JudgedPlan plan = TRY(show_plan(context, flags, problem));
  headline(context, 3, "The check, by a judge that shares no code with the planner");
  say(context,
      fmt::format("ok: {} services on {} GPUs, no violation ({})\n", problem.services.size(),
                  plan->gpus.size(), plan::to_string(problem.rule)));
  headline(context, 4, "A simulated minute of Poisson traffic on that plan");
  TRY(show_traffic(context, flags, problem, plan));
  headline(context, 5, "The same services planned by ParvaGPU's algorithm");
  TRY(show_comparison(context, flags, problem));
  headline(context, 6, "A queue of jobs instead: eight Rodinia kernels on one A30");
  TRY(show_batch(context, flags));
  headline(context, 7, "The plan applied to eight simulated GPUs, then more traffic");
  const hw::GpuModel* model = TRY(hw::builtin_catalogue().get(kGpu));
  DemoNode node(*model, kNodeGpus);
  TRY(node.show_change(context, problem, plan));
  headline(context, 8, "What each service costs: a minute of these GPUs, in joules");
  TRY(node.show_energy(context));
  say(context, "\nKernels on masks, and where the heat goes: make lab, then partita lab demo\n");
  if (std::fflush(context.out) != 0) return environment_error("standard output", "cannot write");
  return Exit::done;
}

}  // namespace

Command add_demo(CLI::App& app) {
  auto [command, flags] =
      adding<DemoFlags>(app, "demo",
                        "Show it all on an example: plan, proof, check, traffic, "
                        "a queue of jobs, a change of a node, joules");
  takes(*command, "-o,--output", flags->picture, "--seed", seeded(flags->seed));
  const Command models = add_demo_models(*command), serve = add_demo_serve(*command),
                llm = add_demo_llm(*command);
  return {command, [flags, models, serve, llm](Context& context) {
            for (const Command& one : {models, serve, llm})
              if (one.app->parsed()) return one.run(context);
            return run_demo(context, *flags);
          }};
}

}  // namespace partita::cli
