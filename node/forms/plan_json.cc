// Plan JSON of serving_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/form_rules.h"
#include "forms/manner_form.h"
#include "forms/serving_forms.h"
#include "forms/terms_form.h"

namespace partita::forms {
namespace {

constexpr double kMaxGpus = 1'000'000;
constexpr ListForm kGpus{.most = 1'000'000, .indent = "    "};
constexpr ListForm kInstances{.most = 64, .indent = "      "};  // of one GPU
constexpr Range kIndices{.high = 1e9};
constexpr Range kStarts{.high = 1023};
constexpr Range kGpcs{.high = 1e9};

void describe(Form& f, PlannedInstance& i) {
  f.name("profile", i.profile, "MIG profile name on that GPU model");
  f.integer("start", i.start, kStarts, "first memory slice, as NVML counts placements");
  f.name("service", i.service, "name of the service");
  f.integer("batch", i.batch, {.low = 1, .high = profile::kMaxBatch}, "largest batch");
  f.integer("processes", i.processes, {.low = 1, .high = profile::kMaxProcesses}, "MPS processes");
  f.number("throughput_rps", i.throughput.value, kNotNegative,
           "the most that the instance may carry under the SLO rule");
  f.number("latency_ms", i.latency.value, kNotNegative, "execution of a full batch");
  f.optional(i.predicted).boolean("predicted", i.predicted, "by a law, not measured");
  f.optional(!i.learned_on.empty())
      .text("learned_on", i.learned_on, "the GPU models of the laws that predicted it");
  describe_manner(f, i);
  f.optional(i.share_percent != 0)
      .number("share_percent", i.share_percent, {.high = 100},
              "MPS share of a whole GPU without MIG; missing or 0: a MIG instance");
}

void describe(Form& f, PlannedGpu& gpu) {
  f.integer("index", gpu.index, kIndices, "counts from 0");
  f.optional().name("model", gpu.model, "catalogue name; missing: the plan's gpu_model");
  f.list("instances", gpu.instances, describe, kInstances, "by start");
  // Stable: of two instances at one start, which the judge refuses, the first one stays first.
  if (f.reading()) std::ranges::stable_sort(gpu.instances, {}, &PlannedInstance::start);
}

void describe(Form& f, plan::Overload& overload) {
  f.number("factor", overload.factor, kPositive, "times the service's rate");
  f.number("in_time", overload.in_time, {.high = 1},
           "share of the requests then; those refused at once are not");
}

void describe(Form& f, plan::TokenOutlook& outlook) {
  f.number("tokens_per_s", outlook.tokens_per_s, kNotNegative, "produced at its rate");
  f.number("gpus", outlook.gpus, kNotNegative, "that its instances take, by compute slices");
  double cost = outlook.cost_per_million.value_or(0);
  f.optional(outlook.cost_per_million.has_value())
      .number("cost_per_million_tokens", cost, kNotNegative,
              "produced, by the prices of GPUs per hour; missing: no prices are known");
  if (f.reading() && f.reading()->has("cost_per_million_tokens")) outlook.cost_per_million = cost;
  f.number("kv_used", outlook.kv_used, {.high = 1},
           "most of a replica's KV cache in use at a time, as simulated");
  f.word("limit", outlook.limit, {"ttft", "tpot", "e2e", "kv", "sequences"},
         "what keeps its replicas from carrying more: a promise, the KV cache, or that no more "
         "requests at once were measured");
}

void describe(Form& f, plan::SetOutlook& outlook) {
  f.integer("held", outlook.held, {.high = plan::kMostSetModels},
            "models, of the instance that holds fewest");
  f.number("cold_share", outlook.cold_share, {.high = 1},
           "of the requests, whose model is not loaded");
  f.number("cold_ms", outlook.cold.value, kNotNegative, "that these take, at the percentile");
}

void describe(Form& f, PlannedService& service) {
  describe_terms(f, service, TermsKept::whole);
  f.number("planned_rps", service.planned.value, kNotNegative, "the sum over its instances");
  f.or_null().number("predicted_latency_ms", service.predicted_latency.value, kNotNegative,
                     "the worst, of the SLO rule's kind; null: unbounded");
  f.optional(service.predicted)
      .boolean("predicted", service.predicted, "an instance of it is predicted, not measured");
  f.optional(!service.overload.empty())
      .list("overload", service.overload, describe, {},
            "what was simulated of more than its rate; missing: nothing");
  f.object("outlook", service.outlook, describe, "of a language model, as simulated at its rate");
  f.object("models_outlook", service.set_outlook, describe,
           "of many models that share its instances, as computed at its rate");
  double wanted = service.wanted.value_or(Rps{}).value;
  f.optional(service.wanted.has_value())
      .number("wanted_rps", wanted, kNotNegative,
              "asked for, where the plan is for a part of it: rate_rps");
  if (f.reading() && f.reading()->has("wanted_rps")) service.wanted = Rps{wanted};
}

void describe(Form& f, Objective& objective) {
  f.integer("gpus", objective.gpus, {.high = kMaxGpus}, "in use");
  f.integer("gpcs", objective.gpcs, kGpcs, "compute slices in use");
  f.optional().number("cost", objective.cost, kNotNegative, "summed price; 0: not stated");
  f.integer("lower_bound_gpus", objective.lower_bound_gpus, {.high = kMaxGpus},
            "no plan needs fewer; 0: not stated");
  f.optional().integer("lower_bound_gpcs", objective.lower_bound_gpcs, kGpcs,
                       "with that many GPUs; 0: not stated");
  f.optional().number("lower_bound_cost", objective.lower_bound_cost, kNotNegative,
                      "0: not stated");
  f.boolean("optimal", objective.optimal, "the bounds are met, so no plan is better");
  plan::Goal goal = objective.goal.value_or(plan::Goal::gpus);
  f.optional(objective.goal.has_value())
      .word("least", goal, {"gpus", "cost", "energy"},
            "what the plan has least of, where that was asked for");
  if (Fields* const in = f.reading(); in && in->has("least")) objective.goal = goal;
  const bool watts = objective.goal == plan::Goal::energy;
  f.optional(watts).number("watts", objective.watts, kNotNegative,
                           "expected, of all GPUs at the services' rates; with least energy");
  f.optional(watts).number("lower_bound_watts", objective.lower_bound_watts, kNotNegative,
                           "no plan takes less; with least energy");
}

void describe(Form& f, PlanStats& stats) {
  f.number("planning_ms", stats.planning_ms, kNotNegative, "CPU time of the planner alone");
  f.optional().number("capacity_ms", stats.capacity_ms, kNotNegative,
                      "CPU time of turning measured points into rates");
  f.optional().whole("nodes", stats.nodes, kNotNegative, "search nodes");
}

void describe(Form& f, PlanChanges::Point& point) {
  f.integer("gpus", point.gpus, {.high = kMaxGpus}, "so many GPUs");
  f.number("cost", point.cost, kNotNegative, "their summed price");
  f.integer("moves", point.moves, kIndices, "fewest instances to create that were found");
  f.integer("lower_bound_moves", point.lower_bound_moves, kIndices, "no plan creates fewer");
  f.boolean("proven", point.proven, "moves is that bound");
}

void describe(Form& f, PlanChanges& changes) {
  f.integer("kept", changes.kept, kIndices, "instances that stay as they are");
  f.integer("restarted", changes.restarted, kIndices, "stay, with other processes");
  f.integer("moved", changes.moved, kIndices, "are created elsewhere");
  f.integer("created", changes.created, kIndices, "are new");
  f.integer("removed", changes.removed, kIndices, "go");
  f.line("    ").list("curve", changes.curve, describe, {.indent = "      "},
                      "what fewer moves cost in GPUs");
}

void describe(Form& f, plan::SloOption& option) {
  f.number("slo_ms", option.slo.value, kPositive, "with this SLO instead");
  f.integer("gpus", option.gpus, {.high = kMaxGpus}, "so many GPUs do");
  f.optional(option.percentile > 0)
      .number("percentile", option.percentile, {.high = 100, .above = true, .below = true},
              "with this one instead");
}

void describe(Form& f, plan::SloAdvice& advice) {
  f.name("service", advice.service, "whose SLO is near its fastest batch");
  f.number("slo_ms", advice.slo.value, kPositive, "asked for");
  f.number("fastest_batch_ms", advice.fastest.value, kPositive,
           "on any instance; TTFT of a request alone");
  f.number("least_slo_ms", advice.least.value, kPositive,
           "that such a batch meets under the SLO rule");
  f.integer("gpus", advice.gpus, {.high = kMaxGpus}, "of this plan");
  f.list("options", advice.options, describe, {}, "plans with a longer SLO of this service");
  f.optional(advice.eased != plan::Eased::slo)
      .word("eased", advice.eased, {"slo", "ttft", "percentile"},
            "what is easier, the SLO when missing; `ttft`: times are to the first token");
  f.optional(advice.percentile > 0)
      .number("percentile", advice.percentile, {.high = 100, .above = true, .below = true},
              "asked for");
  f.optional(advice.language)
      .boolean("language", advice.language, "the fastest is a request alone, not a batch");
}

// The compute slices in a MIG profile's name: 3 of "3g.40gb", 0 of another kind of name.
int gpcs_of(std::string_view profile) {
  int gpcs = 0;
  const auto [end, error] = std::from_chars(profile.data(), profile.data() + profile.size(), gpcs);
  const bool named = error == std::errc() && profile.substr(end - profile.data()).starts_with("g.");
  return named && gpcs > 0 && gpcs <= profile::kMaxGpcs ? gpcs : 0;
}

// What a plan uses, for plans that do not state it; nothing is claimed about bounds.
Objective counted(const ServingPlan& plan) {
  Objective objective;
  objective.gpus = static_cast<int>(plan.gpus.size());
  for (const PlannedGpu& gpu : plan.gpus) {
    int whole = 0;  // of a GPU that is shared, however many share it
    for (const PlannedInstance& instance : gpu.instances) {
      const int gpcs = gpcs_of(instance.profile);
      if (instance.share_percent == 0)
        objective.gpcs += gpcs;
      else
        whole = gpcs;
    }
    objective.gpcs += whole;
  }
  return objective;
}

void describe_rule(Form& f, SloRule& rule) {
  std::string text = to_string(rule);
  f.optional().text("slo_rule", text,
                    "when a latency objective holds: pooled, queueing or execution:F");
  plan::Dispatch server = rule.dispatch;
  f.optional().word("dispatch", server, {"pooled", "paced", "shared-queue", "per-process"},
                    "the server that the promise is made for");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  const auto read = parse_slo_rule(text);
  if (!read) in->refuse("slo_rule", "'slo_rule': " + read.error().message);
  rule = read.value_or(SloRule{});
  if (in->has("dispatch")) rule.dispatch = server;
  if (read && !plan::fits_its_server(rule))
    in->refuse("dispatch", fmt::format("'dispatch': the rule '{}' is not for a server that is {}",
                                       text, to_string(server)));
}

struct PlanDocument {
  ServingPlan plan;
  std::optional<PlanChanges> changes;
  std::vector<plan::SloAdvice> advice = {};
};

void describe(Form& f, PlanDocument& document) {
  ServingPlan& plan = document.plan;
  f.lines("  ");
  f.document("ServingPlan");
  f.name("gpu_model", plan.gpu_model, "catalogue name of the (first) GPU model");
  f.optional(!plan.planner.empty()).name("planner", plan.planner, "the planner that made it");
  describe_rule(f, plan.rule);
  f.optional(plan.survive > 0)
      .integer("survive", plan.survive, {.high = plan::kMostLost},
               "any so many GPUs may be lost and every SLO is kept; missing: 0");
  f.optional(!plan.problem_digest.empty())
      .name("problem_digest", plan.problem_digest, "of the problem that it solves");
  f.optional().object("objective", plan.objective, describe, "missing: counted");
  f.list("gpus", plan.gpus, describe, kGpus, "with the instances on them");
  f.list("services", plan.services, describe, {.most = kMaxServices, .indent = "    "},
         "what was asked for, and what is planned");
  f.optional().object("stats", plan.stats, describe, "what planning took");
  f.optional(!plan.explanation.empty())
      .notes("explanation", plan.explanation, {.indent = "    "},
             "sentences that explain the plan");
  f.object("incremental", document.changes, describe, "against what ran before");
  f.optional(!document.advice.empty())
      .list("advice", document.advice, describe, {.indent = "    "},
            "what a longer SLO would save, found by planning again");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  if (!in->has("objective")) plan.objective = counted(plan);
  for (PlannedGpu& gpu : plan.gpus)
    if (gpu.model.empty()) gpu.model = plan.gpu_model;
  for (PlannedService& service : plan.services) service.dispatch = plan.rule.dispatch;
}

}  // namespace

void describe_manner(Form& f, PlannedInstance& i) {
  describe_engine(f, i.engine);
  f.optional(i.group != 1)
      .integer("group", i.group, {.low = 1, .high = profile::kMostGroupedGpus},
               "so many GPUs serve together, which follow one another; missing: 1");
  for (const auto& [key, units] :
       {std::pair("prefill_units", &i.prefill_units), std::pair("decode_units", &i.decode_units)})
    f.optional(*units != 0)
        .integer(key, *units, {.low = 1, .high = 1e6},
                 "SMs that only do that, beside the others; missing: all do both");
  f.optional(i.held != 0)
      .integer("held", i.held, {.high = plan::kMostSetModels}, "models at once, of a set of them");
}

void describe_plan(Form& f, ServingPlan& plan) {
  PlanDocument document{plan, {}, {}};
  describe(f, document);
  if (f.reading()) plan = std::move(document.plan);
}

std::string plan_json(const ServingPlan& plan, const std::optional<PlanChanges>& changes,
                      const std::vector<plan::SloAdvice>& advice) {
  return write_form(PlanDocument{plan, changes, advice}, describe);
}

Result<ServingPlan> read_plan(const Document& document) {
  auto read = TRY(read_form<PlanDocument>(document, describe));
  return std::move(read.plan);
}

Result<ServingPlan> parse_plan(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  return read_plan(document);
}

DocumentKind plan_kind() {
  return document_kind<PlanDocument, describe, "ServingPlan",
                       "which service runs with which batch on which instance">();
}

}  // namespace partita::forms
