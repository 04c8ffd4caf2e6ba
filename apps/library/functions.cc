#include "functions.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/form.h"
#include "base/nearest.h"
#include "decide/batch.h"
#include "decide/batch_inputs.h"
#include "decide/other_traffic.h"
#include "decide/serving.h"
#include "decide/serving_inputs.h"
#include "decide/simulate.h"
#include "forms/batch_forms.h"
#include "forms/document_kinds.h"
#include "forms/reason_forms.h"
#include "forms/serving_forms.h"
#include "sim/report_forms.h"

namespace partita::library {
namespace {

constexpr const char* kOptions = "options";  // what messages call them
constexpr double kMostSeconds = 1e6;
constexpr Range kCount{.low = 0, .high = 1e12};

// All options of all functions; each reads its own.
struct Asked {
  decide::ProblemFiles problem;
  decide::OtherTraffic traffic;
  decide::GpuNames gpus;
  decide::SearchOptions search;
  std::string planner = "exact", scheduler = "best";
  std::string plan, tasks, schedule, name;
  long node_budget = decide::PlanOptions{}.node_budget;
  int max_gpus = 0;
  double duration_s = 60, lateness_ms = 0;
  std::uint64_t seed = 1;
  bool full_batches = false;
};

void problem_options(Form& f, Asked& asked) {
  decide::ProblemFiles& files = asked.problem;
  f.text("services", files.services, "the services file");
  f.optional().text("profiles", files.profiles, "the profiles");
  f.optional().text("fleet", files.fleet, "a fleet instead");
  f.optional().text("slo_rule", files.rule, "pooled, queueing or execution:F");
  f.optional().text("dispatch", files.dispatch, "the server");
  f.optional().text("at", files.at, "a time of day");
  f.optional().integer("max_processes", files.max_processes, {.low = 1, .high = 1000}, "per GPU");
  f.optional().integer("survive", files.survive, {.low = 0, .high = plan::kMostLost}, "lost GPUs");
  f.optional().text("catalogue", files.catalogue, "a folder of GPU models");
}

void plan_options(Form& f, Asked& asked) {
  f.closed();
  problem_options(f, asked);
  f.optional().text("gpu", asked.problem.gpu, "the GPU model");
  f.optional().text("planner", asked.planner, "who plans");
  f.optional().whole("node_budget", asked.node_budget, {.low = 1, .high = 1e12}, "of the search");
  f.optional().integer("max_gpus", asked.max_gpus, {.low = 1, .high = 1e6}, "more are refused");
}

void verify_options(Form& f, Asked& asked) {
  f.closed();
  problem_options(f, asked);
  f.text("plan", asked.plan, "the plan");
}

void simulate_options(Form& f, Asked& asked) {
  verify_options(f, asked);
  f.optional().number("duration_s", asked.duration_s, {.low = 1e-3, .high = kMostSeconds},
                      "played");
  f.optional().whole("seed", asked.seed, "of what is random");
  f.optional().text("arrivals", asked.traffic.arrivals, "how requests arrive");
  f.optional().number("load", asked.traffic.load, {.low = 1e-6, .high = 1e6}, "factor on rates");
  f.optional().notes("what_if", asked.traffic.what_if, {}, "SERVICE=RATE");
  f.optional().number("lateness_ms", asked.lateness_ms, {.low = 0, .high = 1000}, "of timers");
  f.optional().boolean("full_batches", asked.full_batches, "a batch waits until it is full");
}

void schedule_options(Form& f, Asked& asked) {
  f.closed();
  f.text("tasks", asked.tasks, "the tasks");
  f.text("gpu", asked.gpus.gpu, "GPU models");
  f.optional().integer("gpus", asked.gpus.gpus, {.low = 1, .high = plan::kMaxBatchGpus}, "of one");
  f.optional().text("catalogue", asked.gpus.catalogue, "a folder of GPU models");
  f.optional().text("scheduler", asked.scheduler, "who schedules");
  f.optional().whole("seed", asked.search.seed, "of what is random");
  f.optional().whole("budget", asked.search.budget, kCount, "steps of the search");
}

void verify_schedule_options(Form& f, Asked& asked) {
  f.closed();
  f.text("schedule", asked.schedule, "the schedule");
  f.text("tasks", asked.tasks, "the tasks");
  f.optional().text("catalogue", asked.gpus.catalogue, "a folder of GPU models");
}

void schema_options(Form& f, Asked& asked) {
  f.closed();
  f.optional().text("kind", asked.name, "of the document; none: their names");
}

void gpu_options(Form& f, Asked& asked) {
  f.closed();
  f.optional().text("catalogue", asked.gpus.catalogue, "a folder of GPU models");
}

Result<std::string> make_plan(Files& files, const Asked& asked) {
  const auto planner = TRY(decide::find_planner("planner", asked.planner));
  auto problem = TRY(decide::load_problem(files, asked.problem));
  if (asked.problem.rule.empty() && asked.problem.dispatch.empty())
    problem.rule = decide::rule_for(*planner, std::nullopt);
  const auto made = TRY(decide::make_plan(*planner, problem, {asked.node_budget, {}}));
  if (!made.plan) return forms::refusal_json(made.refusals);
  if (asked.max_gpus > 0) {
    const auto reasons = decide::too_many_gpus(**made.plan, asked.max_gpus);
    if (!reasons.empty()) return forms::refusal_json(reasons);
  }
  return forms::plan_json(decide::with_overload(problem, *made.plan));
}

Result<std::string> verify(Files& files, const Asked& asked) {
  const auto judged = TRY(decide::load_judged_plan(files, asked.plan, asked.problem));
  return forms::verdict_json(judged.verdict ? std::vector<plan::Reason>{}
                                            : judged.verdict.error().violations);
}

Result<std::string> simulate(Files& files, const Asked& asked) {
  sim::ServingOptions options;
  options.duration = Seconds{asked.duration_s};
  options.seed = asked.seed;
  options.mean_lateness = Millis{asked.lateness_ms};
  if (asked.full_batches) options.batching = sim::BatchingKind::full;
  const auto judged = TRY(decide::load_judged_plan(files, asked.plan, asked.problem));
  if (!judged.verdict) return forms::verdict_json(judged.verdict.error().violations);
  const auto played = TRY(decide::play(files, judged.problem, asked.traffic, options));
  auto timed = TRY(decide::simulate(played.problem, *judged.verdict, played.options));
  timed.report.load = asked.traffic.load;
  return sim::report_json(timed.report, asked.seed, timed.events_per_second);
}

Result<std::string> make_schedule(Files& files, const Asked& asked) {
  const auto chosen = TRY(decide::choose_scheduler("scheduler", asked.scheduler));
  const auto gpus = TRY(decide::load_gpus(files, asked.gpus));
  const auto problem = TRY(decide::load_batch(files, asked.tasks, gpus));
  const auto made = TRY(decide::make_schedule(chosen, problem, asked.search, {}));
  if (const auto wrong = decide::misuse("scheduler", made.refusals)) return failed(*wrong);
  if (!made.plan) return forms::refusal_json(made.refusals);
  return forms::schedule_json(**made.plan, plan::late_tasks(problem, **made.plan));
}

Result<std::string> verify_schedule(Files& files, const Asked& asked) {
  const auto judged =
      TRY(decide::load_schedule(files, {asked.schedule, asked.tasks, asked.gpus.catalogue}));
  return forms::verdict_json(judged.verdict ? std::vector<plan::Reason>{}
                                            : judged.verdict.error().violations);
}

struct Names {
  std::vector<std::string> names;
};

void describe_gpus(Form& f, Names& all) {
  f.document("GpuNames");
  f.names("gpus", all.names, {}, "of the catalogue");
}

void describe_kinds(Form& f, Names& all) {
  f.document("DocumentKinds");
  f.names("kinds", all.names, {}, "with a schema");
}

Result<std::string> gpus(Files& files, const Asked& asked) {
  const auto catalogue = TRY(decide::load_catalogue(files, asked.gpus.catalogue));
  Names all;
  for (const hw::GpuModel& gpu : catalogue.gpus) all.names.push_back(gpu.name);
  return write_form(all, describe_gpus);
}

Result<std::string> schema(Files&, const Asked& asked) {
  std::vector<DocumentKind> kinds = forms::document_kinds();
  for (const DocumentKind& kind : sim::document_kinds()) kinds.push_back(kind);
  Names all;
  for (const DocumentKind& kind : kinds) {
    if (kind.name == asked.name) return kind.schema();
    all.names.emplace_back(kind.name);
  }
  if (!asked.name.empty())
    return bad_input("kind", fmt::format("unknown kind '{}'{}", asked.name,
                                         did_you_mean(asked.name, all.names)));
  return write_form(all, describe_kinds);
}

struct Function {
  const char* name;
  void (*options)(Form&, Asked&);
  Result<std::string> (*answer)(Files&, const Asked&);
};

constexpr std::array kFunctions = {
    Function{"gpus", gpu_options, gpus},
    Function{"plan", plan_options, make_plan},
    Function{"schedule", schedule_options, make_schedule},
    Function{"schema", schema_options, schema},
    Function{"simulate", simulate_options, simulate},
    Function{"verify", verify_options, verify},
    Function{"verify_schedule", verify_schedule_options, verify_schedule},
};

}  // namespace

Result<std::string> answer(Files& files, const std::string& function, const std::string& options) {
  std::vector<std::string> names;
  for (const Function& one : kFunctions) {
    if (function == one.name) {
      const auto asked = TRY(read_form<Asked>(kOptions, options, one.options));
      return one.answer(files, asked);
    }
    names.emplace_back(one.name);
  }
  return bad_input("",
                   fmt::format("unknown function '{}'{}", function, did_you_mean(function, names)));
}

}  // namespace partita::library
