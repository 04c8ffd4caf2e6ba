#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/fields.h"
#include "base/json_writer.h"
#include "forms/serving_forms.h"

namespace partita::plan {
namespace {

constexpr std::size_t kMaxGpus = 1'000'000;
constexpr std::size_t kMaxInstances = 64;  // of one GPU
constexpr std::size_t kMaxExplanation = 1'000'000;
constexpr Range kIndices{.high = 1e9};
constexpr Range kStarts{.high = 1023};

// ---- writing ----

void write(JsonWriter& out, const PlannedInstance& instance) {
  out.raw("{\"profile\": ").string(instance.profile);
  out.raw(", \"start\": ").number(long{instance.start});
  out.raw(", \"service\": ").string(instance.service);
  out.raw(", \"batch\": ").number(long{instance.batch});
  out.raw(", \"processes\": ").number(long{instance.processes});
  out.raw(", \"throughput_rps\": ").number(instance.throughput.value);
  out.raw(", \"latency_ms\": ").number(instance.latency.value).raw("}");
}

void write(JsonWriter& out, const PlannedGpu& gpu) {
  out.raw("{\"index\": ").number(long{gpu.index});
  out.raw(", \"model\": ").string(gpu.model);
  out.raw(", \"instances\": ");
  out.list(gpu.instances, "      ", [&](const PlannedInstance& i) { write(out, i); }).raw("}");
}

void write(JsonWriter& out, const PlannedService& service) {
  out.raw("{\"name\": ").string(service.name);
  out.raw(", \"rate_rps\": ").number(service.rate.value);
  out.raw(", \"planned_rps\": ").number(service.planned.value);
  out.raw(", \"slo_ms\": ").number(service.slo.value);
  out.raw(", \"predicted_latency_ms\": ").number(service.predicted_latency.value).raw("}");
}

void write(JsonWriter& out, const Objective& objective) {
  out.raw("{\"gpus\": ").number(long{objective.gpus});
  out.raw(", \"gpcs\": ").number(long{objective.gpcs});
  out.raw(", \"cost\": ").number(objective.cost);
  out.raw(", \"lower_bound_gpus\": ").number(long{objective.lower_bound_gpus});
  out.raw(", \"lower_bound_gpcs\": ").number(long{objective.lower_bound_gpcs});
  out.raw(", \"lower_bound_cost\": ").number(objective.lower_bound_cost);
  out.raw(", \"optimal\": ").boolean(objective.optimal).raw("}");
}

void write(JsonWriter& out, const PlanStats& stats) {
  out.raw("{\"planning_ms\": ").number(stats.planning_ms);
  out.raw(", \"capacity_ms\": ").number(stats.capacity_ms);
  out.raw(", \"nodes\": ").number(stats.nodes).raw("}");
}

// ---- reading ----

// An infinite latency is written as null.
Millis read_latency(Fields& fields) {
  constexpr std::string_view kKey = "predicted_latency_ms";
  if (fields.has(kKey) && !fields.known(kKey))
    return Millis{std::numeric_limits<double>::infinity()};
  return Millis{fields.number(kKey, kNotNegative)};
}

PlannedInstance read_instance(Fields fields) {
  PlannedInstance instance;
  instance.profile = fields.name("profile");
  instance.start = fields.integer("start", kStarts);
  instance.service = fields.name("service");
  instance.batch = fields.integer("batch", {.low = 1, .high = profile::kMaxBatch});
  instance.processes = fields.integer("processes", {.low = 1, .high = profile::kMaxProcesses});
  instance.throughput = Rps{fields.number("throughput_rps", kNotNegative)};
  instance.latency = Millis{fields.number("latency_ms", kNotNegative)};
  return instance;
}

PlannedGpu read_gpu(Fields fields) {
  PlannedGpu gpu;
  gpu.index = fields.integer("index", kIndices);
  if (fields.has("model")) gpu.model = fields.name("model");
  for (const Node& item : fields.list("instances", kMaxInstances)) {
    gpu.instances.push_back(read_instance({fields, item}));
    if (fields.error()) break;
  }
  // Stable: of two instances at one start, which the judge refuses, the first one stays first.
  std::stable_sort(gpu.instances.begin(), gpu.instances.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return gpu;
}

PlannedService read_planned_service(Fields fields) {
  PlannedService service;
  service.name = fields.name("name");
  service.rate = Rps{fields.number("rate_rps", kNotNegative)};
  service.planned = Rps{fields.number("planned_rps", kNotNegative)};
  service.slo = Millis{fields.number("slo_ms", kNotNegative)};
  service.predicted_latency = read_latency(fields);
  return service;
}

Objective read_objective(Fields fields) {
  constexpr Range kGpcs{.high = 1e9};
  Objective objective;
  objective.gpus = fields.integer("gpus", {.high = kMaxGpus});
  objective.gpcs = fields.integer("gpcs", kGpcs);
  objective.lower_bound_gpus = fields.integer("lower_bound_gpus", {.high = kMaxGpus});
  objective.optimal = fields.boolean("optimal");
  if (fields.has("cost")) objective.cost = fields.number("cost", kNotNegative);
  if (fields.has("lower_bound_gpcs"))
    objective.lower_bound_gpcs = fields.integer("lower_bound_gpcs", kGpcs);
  if (fields.has("lower_bound_cost"))
    objective.lower_bound_cost = fields.number("lower_bound_cost", kNotNegative);
  return objective;
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
  for (const PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& instance : gpu.instances)
      objective.gpcs += gpcs_of(instance.profile);
  return objective;
}

PlanStats read_stats(Fields fields) {
  PlanStats stats;
  stats.planning_ms = fields.number("planning_ms", kNotNegative);
  if (fields.has("capacity_ms")) stats.capacity_ms = fields.number("capacity_ms", kNotNegative);
  if (fields.has("nodes")) stats.nodes = fields.whole("nodes", kNotNegative);
  return stats;
}

SloRule read_rule(Fields& plan) {
  const auto rule = parse_slo_rule(plan.text("slo_rule"));
  if (!rule) plan.refuse("slo_rule", "'slo_rule': " + rule.error().message);
  return rule.value_or(SloRule{});
}

// Everything but the GPUs and services.
ServingPlan read_head(Fields& fields) {
  ServingPlan plan;
  fields.exactly("api_version", "partita/v1");
  fields.exactly("kind", "ServingPlan");
  plan.gpu_model = fields.name("gpu_model");
  if (fields.has("planner")) plan.planner = fields.name("planner");
  if (fields.has("slo_rule")) plan.rule = read_rule(fields);
  if (fields.has("problem_digest")) plan.problem_digest = fields.name("problem_digest");
  if (fields.has("objective")) plan.objective = read_objective(fields.object("objective"));
  if (fields.has("stats")) plan.stats = read_stats(fields.object("stats"));
  if (fields.has("explanation")) {
    for (const Node& item : fields.list("explanation", kMaxExplanation)) {
      if (item.kind != Node::Kind::string) fields.refuse(item, "an explanation must be text");
      plan.explanation.push_back(item.text);
    }
  }
  return plan;
}

}  // namespace

std::string plan_json(const ServingPlan& plan) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"ServingPlan\"");
  out.raw(",\n  \"gpu_model\": ").string(plan.gpu_model);
  if (!plan.planner.empty()) out.raw(",\n  \"planner\": ").string(plan.planner);
  out.raw(",\n  \"slo_rule\": ").string(to_string(plan.rule));
  if (!plan.problem_digest.empty())
    out.raw(",\n  \"problem_digest\": ").string(plan.problem_digest);
  out.raw(",\n  \"objective\": ");
  write(out, plan.objective);
  out.raw(",\n  \"gpus\": ");
  out.list(plan.gpus, "    ", [&](const PlannedGpu& gpu) { write(out, gpu); });
  out.raw(",\n  \"services\": ");
  out.list(plan.services, "    ", [&](const PlannedService& service) { write(out, service); });
  out.raw(",\n  \"stats\": ");
  write(out, plan.stats);
  if (!plan.explanation.empty()) {
    out.raw(",\n  \"explanation\": ");
    out.list(plan.explanation, "    ", [&](const std::string& line) { out.string(line); });
  }
  return out.raw("\n}\n").take();
}

Result<ServingPlan> parse_plan(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  return read_plan(*document);
}

Result<ServingPlan> read_plan(const Document& document) {
  Fields fields(document);
  ServingPlan plan = read_head(fields);
  for (const Node& item : fields.list("gpus", kMaxGpus)) {
    plan.gpus.push_back(read_gpu({fields, item}));
    if (plan.gpus.back().model.empty()) plan.gpus.back().model = plan.gpu_model;
    if (fields.error()) break;
  }
  for (const Node& item : fields.list("services", kMaxServices)) {
    plan.services.push_back(read_planned_service({fields, item}));
    if (fields.error()) break;
  }
  if (fields.error()) return failed(*fields.error());
  if (!fields.has("objective")) plan.objective = counted(plan);
  return plan;
}

}  // namespace partita::plan
