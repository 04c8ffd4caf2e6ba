#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "lanes/graph_work.h"
#include "decide/graph.h"
#include "lanes/examples/strassen.h"
#include "flags.h"
#include "forms/graph_forms.h"
#include "kernels/graph_work.h"
#include "kernels/kernel_inputs.h"
#include "lab_commands.h"

namespace partita::cli {
namespace {

constexpr double kMostError = 1e-4;  // of the example's product, relative
constexpr int kMaxExampleSize = 4096;
constexpr int kMaxThreads = 256;
constexpr int kSimulatedThreads = 2;

int cores() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

// ----------------------------------------------------------------------------------------- example

void add_example_flags(CLI::App& command, StrassenFlags& flags) {
  within(flag(command, "--size", flags.size), 1, kMaxExampleSize)
      ->default_str(fmt::format("{}", flags.size));
  within(flag(command, "--levels", flags.levels), 0, examples::kMaxLevels)
      ->default_str(fmt::format("{}", flags.levels));
}

struct ExampleFlags {
  std::string name;
  StrassenFlags strassen;
  int units = 1;
  Output output;
};

Result<Exit> run_example(Context& context, const ExampleFlags& flags) {
  const GraphWork work = strassen_work(flags.strassen, flags.units, false);
  return finish(context, flags.output, forms::graph_json(work.problem));
}

Command add_graph_example(CLI::App& graph) {
  auto [command, flags] =
      adding<ExampleFlags>(graph, "example", "Write an example as a task graph file");
  one_of(command->add_option("NAME", flags->name,
                             "strassen: matrix multiplication, Winograd's variant of Strassen's"),
         {"strassen"})
      ->required();
  add_example_flags(*command, flags->strassen);
  within(flag(*command, "--units", flags->units), 1, hw::kMaxUnits)
      ->default_str(fmt::format("{}", flags->units));
  add_output(*command, flags->output, {"json"});
  command->footer("partita graph example strassen --size 2048 --units 8 -o strassen.json");
  return {command, [flags](Context& context) { return run_example(context, *flags); }};
}

// --------------------------------------------------------------------------------------------- run

struct RunFlags {
  std::string file, example, driver = "cpu_mask", gpu, policy, waits = "device";
  StrassenFlags strassen;
  int units = 1, threads = 0, overlap_limit = 0;
  bool limit_given = false, sequential = false, compare = false;
  double copy_gbps = 10;
  Output output;
};

Result<GraphWork> load_work(Context& context, const RunFlags& flags, const hw::Topology& topology) {
  if (flags.file.empty() == flags.example.empty())
    return bad_input("graph run", "give either FILE or --example");
  const bool real = flags.driver != "sim";
  GraphWork work;
  if (!flags.example.empty()) {
    if (flags.units > topology.units())
      return bad_input("--units", fmt::format("{} has {}", topology.name, topology.units()));
    work = strassen_work(flags.strassen, flags.units, real);
  } else {
    work.problem = TRY(decide::load_graph(context.files, flags.file));
    TRY(decide::check_units(flags.file, work.problem, topology));
    TRY(real ? decide::check_copies(flags.file, work.problem) : Result<void>{});
    work.graph = carry::graph_of(work.problem, topology, real ? &context.clock : nullptr);
  }
  // What flags say holds for every task.
  if (!flags.policy.empty()) work.problem.policy = flags.policy;
  if (flags.limit_given) work.problem.overlap_limit = flags.overlap_limit;
  for (plan::GraphTask& task : work.problem.tasks) {
    if (!flags.policy.empty()) task.policy.clear();
    if (flags.limit_given) task.overlap_limit.reset();
    const std::string& policy = task.policy.empty() ? work.problem.policy : task.policy;
    const std::string where = flags.policy.empty() ? flags.file : "--policy";
    const auto fits = decide::check_mask_policy(topology, policy, where);
    if (!fits && task.kind == plan::GraphTaskKind::lane) return failed(fits.error());
  }
  return work;
}

std::string content_of(const RunFlags& flags, const forms::GraphResult& result,
                       const Context& context) {
  if (flags.output.json()) return forms::graph_run_json(result);
  if (flags.output.svg()) return forms::graph_run_svg(result);
  const bool colour = context.colour && flags.output.file.empty();
  return forms::graph_run_text(result, {colour, context.width});
}

Result<Exit> run_graph(Context& context, const RunFlags& flags) {
  const bool sim = flags.driver == "sim";
  const std::string gpu = !flags.gpu.empty() ? flags.gpu
                          : sim              ? "MI50"
                                             : fmt::format("1x{}", cores());
  const hw::Topology topology = TRY(decide::load_topology(gpu));
  auto work = TRY(load_work(context, flags, topology));
  const int standard = sim ? kSimulatedThreads : cores();
  const int threads = flags.threads > 0 ? flags.threads : standard;
  const GraphRunSettings settings{topology, flags.driver, threads, flags.waits == "device",
                                  flags.copy_gbps};
  // Compared are runs on memory that another one has touched before.
  const bool compare = flags.compare && !flags.sequential;
  if (compare && !sim) {
    if (auto warm = run_sequentially(context, work, settings); !warm) return failed(warm.error());
  }
  const auto ran = TRY(flags.sequential ? run_sequentially(context, work, settings)
                                        : run_graph(context, work, settings));
  forms::GraphResult result{work.problem, ran};
  if (work.strassen && !sim) result.relative_error = relative_error(*work.strassen);
  if (compare) {
    result.sequential = TRY(run_sequentially(context, work, settings));
  }
  const std::string content = content_of(flags, result, context);
  TRY(deliver(context, flags.output, content));
  if (result.relative_error.value_or(0) <= kMostError) return Exit::done;
  complain(context, fmt::format("the relative error is above {:g}", kMostError));
  return Exit::no;
}

void add_run_flags(CLI::App& command, RunFlags& flags) {
  one_of(flag(command, "--lane-driver", flags.driver), {"cpu_mask", "sim"})
      ->default_str(flags.driver);
  flag(command, "--topology", flags.gpu);
  one_of(flag(command, "--policy", flags.policy,
              "How kernels get their units, overriding the graph; see partita help mask"),
         decide::mask_policy_words());
  within(flag(command, "--overlap-limit", flags.overlap_limit), 0, hw::kMaxUnits);
  within(flag(command, "--threads", flags.threads), 1, kMaxThreads);
  one_of(flag(command, "--waits", flags.waits), {"device", "host"})->default_str(flags.waits);
  within(flag(command, "--copy-gbps", flags.copy_gbps), 1e-3, 1e6)->default_str("10");
  flag(command, "--sequential", flags.sequential);
  flag(command, "--compare", flags.compare);
}

Command add_graph_run(CLI::App& graph) {
  auto [command, flags] = adding<RunFlags>(
      graph, "run", "Run a task graph on lanes of threads, or in virtual time, and draw it");
  command->add_option("FILE", flags->file, "The task graph (YAML or JSON)")->type_name("FILE");
  one_of(flag(*command, "--example", flags->example), {"strassen"});
  add_example_flags(*command, flags->strassen);
  within(flag(*command, "--units", flags->units), 1, hw::kMaxUnits)
      ->default_str(fmt::format("{}", flags->units));
  add_seed(*command, flags->strassen.seed);
  add_run_flags(*command, *flags);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita graph run --example strassen --size 1024 --compare\n"
      "partita graph run graph.yaml --driver sim --gpu MI50 --policy conserved --format svg -o "
      "graph.svg");
  return {command, [flags, command](Context& context) {
            flags->limit_given = command->count("--overlap-limit") > 0;
            return run_graph(context, *flags);
          }};
}

// ------------------------------------------------------------------------------------------- check

struct CheckFlags {
  std::string file, gpu;
};

Result<Exit> run_check(Context& context, const CheckFlags& flags) {
  const auto problem = TRY(decide::load_graph(context.files, flags.file));
  if (!flags.gpu.empty()) {
    const hw::Topology topology = TRY(decide::load_topology(flags.gpu));
    if (auto fits = decide::check_units(flags.file, problem, topology); !fits)
      return failed(fits.error());
  }
  std::size_t edges = 0;
  for (const plan::GraphTask& task : problem.tasks) edges += task.after.size();
  const std::string text =
      fmt::format("ok: {} tasks, {} dependencies\n", problem.tasks.size(), edges);
  return finish(context, {}, text);
}

Command add_graph_check(CLI::App& graph) {
  auto [command, flags] = adding<CheckFlags>(graph, "check", "Check a task graph");
  command->add_option("FILE", flags->file, "The task graph (YAML or JSON)")
      ->required()
      ->type_name("FILE");
  flag(*command, "--topology", flags->gpu);
  command->footer("partita graph check graph.yaml --gpu MI50");
  return {command, [flags](Context& context) { return run_check(context, *flags); }};
}

}  // namespace

Command add_graph(CLI::App& app) {
  CLI::App* graph =
      app.add_subcommand("graph", "Run graphs of CPU tasks, kernels on lanes of units, and copies");
  const std::vector<Command> commands = {add_graph_run(*graph), add_graph_check(*graph),
                                         add_graph_example(*graph)};
  graph->footer("partita graph run --example strassen --size 1024 --compare");
  return group_of(graph, commands);
}

}  // namespace partita::cli
