#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

// ---- plans of any content within the bounds ----

std::string any_name() {
  static const char* const kPieces[] = {"a",    "B7", " ",  "\"", "\\", "/",
                                        "<&>'", "é",  "語", "🚀",  "{",  ","};
  std::string name;
  const int count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) name += kPieces[*rc::gen::inRange<std::size_t>(0, 12)];
  return name;
}

// Any double from 0 to 1e12, with all bits of its mantissa in use.
double any_quantity() {
  const auto bits = *rc::gen::arbitrary<std::uint64_t>();
  const int exponent = *rc::gen::inRange(-60, 40);
  return *rc::gen::element(0.0, 1e12, 1.0, 0.1,
                           std::ldexp(static_cast<double>(bits >> 11), exponent - 53));
}

PlannedInstance any_instance(int start) {
  return {{any_name(), start},      any_name(),          *rc::gen::inRange(1, 65537),
          *rc::gen::inRange(1, 65), Rps{any_quantity()}, Millis{any_quantity()}};
}

ServingPlan any_plan() {
  ServingPlan plan;
  plan.gpu_model = any_name();
  plan.planner = any_name();
  if (*rc::gen::arbitrary<bool>()) plan.rule = {SloRule::Kind::execution, 0.1 + 0.2};
  plan.objective = {3, 17, any_quantity(), 2, 11, any_quantity(), *rc::gen::arbitrary<bool>()};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    plan.gpus.push_back({i, any_name(), {}});
    for (int k = *rc::gen::inRange(0, 4), start = 0; k > 0; --k, start += 2)
      plan.gpus.back().instances.push_back(any_instance(start));
  }
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
    plan.services.push_back(
        {{.name = any_name(), .rate = Rps{any_quantity()}, .slo = Millis{any_quantity()}},
         Rps{any_quantity()},
         Millis{any_quantity()}});
  plan.explanation = {any_name()};
  plan.survive = *rc::gen::inRange(0, 2);
  plan.stats = {any_quantity(), any_quantity(), *rc::gen::inRange<long>(0, 1'000'000'000'000)};
  return plan;
}

RC_GTEST_PROP(PlanJson, ReadsBackBitForBit, ()) {
  const ServingPlan plan = any_plan();
  const auto again = parse_plan("p.json", plan_json(plan));
  if (!again) RC_FAIL(to_string(again.error()));
  RC_ASSERT(*again == plan);
  RC_ASSERT(again->explanation == plan.explanation);
  RC_ASSERT(again->stats.planning_ms == plan.stats.planning_ms);
  RC_ASSERT(again->stats.capacity_ms == plan.stats.capacity_ms);
  RC_ASSERT(again->stats.nodes == plan.stats.nodes);
  RC_ASSERT(plan_json(*again) == plan_json(plan));
}

TEST(PlanJson, RefusesArrivalsWithoutTheirNumbers) {
  const auto refused = [](const std::string& arrivals) {
    const auto read = parse_plan(
        "p.json", R"({"api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "g",
        "gpus": [], "services": [{"name": "a", "rate_rps": 1, "slo_ms": 1, "planned_rps": 1,
        "predicted_latency_ms": 1, "arrivals": )" +
                      arrivals + "}]}");
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(refused(R"({"law": "uniform"})"), "");
  EXPECT_EQ(refused(R"({"law": "gamma", "cv": 2})"), "");
  EXPECT_NE(refused(R"({"law": "gamma"})").find("cv"), std::string::npos);
  EXPECT_NE(refused(R"({"law": "burst", "peak": 2, "seconds": 1})").find("every"),
            std::string::npos);
  EXPECT_NE(refused(R"({"law": "trace"})").find("file"), std::string::npos);
  EXPECT_NE(refused(R"({"law": "often"})").find("poisson"), std::string::npos);
}

// ---- the written form, read by another library ----

ServingPlan plan_to_write() {
  ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  plan.planner = "exact";
  plan.objective = {1, 7, 1, 1, 7, 1, true};
  plan.gpus = {{0,
                "A100-80GB",
                {{"4g.40gb", 0, "bert", 8, 2, Rps{21.25}, Millis{310.5}},
                 {"3g.40gb", 4, "a\"b\\c", 16, 1, Rps{140}, Millis{0.1}}}}};
  plan.services = {
      {{.name = "bert", .model = "net", .rate = Rps{19}, .slo = Millis{6434}, .percentile = 99.9},
       Rps{21.25},
       Millis{512.75}},
      {{.name = "a\"b\\c", .rate = Rps{100}, .slo = Millis{200}}, Rps{140}, Millis{90}}};
  plan.stats = {0.25, 3.5, 12};
  return plan;
}

TEST(PlanJson, HoldsTheAgreedKeys) {
  const auto json = nlohmann::json::parse(plan_json(plan_to_write()));
  EXPECT_EQ(json["api_version"], "partita/v1");
  EXPECT_EQ(json["kind"], "ServingPlan");
  EXPECT_EQ(json["gpu_model"], "A100-80GB");
  EXPECT_EQ(json["planner"], "exact");
  EXPECT_EQ(json["slo_rule"], "pooled");
  EXPECT_EQ(json["dispatch"], "pooled");
  EXPECT_EQ(json["objective"], nlohmann::json::parse(R"({"gpus": 1, "gpcs": 7, "cost": 1,
      "lower_bound_gpus": 1, "lower_bound_gpcs": 7, "lower_bound_cost": 1, "optimal": true})"));
  EXPECT_EQ(json["gpus"], nlohmann::json::parse(R"([{"index": 0, "model": "A100-80GB",
      "instances": [
        {"profile": "4g.40gb", "start": 0, "service": "bert", "batch": 8, "processes": 2,
         "throughput_rps": 21.25, "latency_ms": 310.5},
        {"profile": "3g.40gb", "start": 4, "service": "a\"b\\c", "batch": 16, "processes": 1,
         "throughput_rps": 140, "latency_ms": 0.1}]}])"));
  EXPECT_EQ(json["services"][0],
            nlohmann::json::parse(R"({"name": "bert", "model": "net", "rate_rps": 19,
      "slo_ms": 6434, "percentile": 99.9, "planned_rps": 21.25, "predicted_latency_ms": 512.75})"));
  EXPECT_EQ(json["stats"]["planning_ms"], 0.25);
}

TEST(PlanJson, WritesAnUnboundedLatencyAsNull) {
  ServingPlan plan = plan_to_write();
  plan.services[0].predicted_latency = Millis{std::numeric_limits<double>::infinity()};
  EXPECT_TRUE(
      nlohmann::json::parse(plan_json(plan))["services"][0]["predicted_latency_ms"].is_null());
  const auto again = parse_plan("p.json", plan_json(plan));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, plan);
}

TEST(PlanJson, SaysWhatIsPredictedAndReadsItBack) {
  ServingPlan plan = plan_to_write();
  plan.gpus[0].instances[0].predicted = plan.services[0].predicted = true;
  plan.gpus[0].instances[0].learned_on = "A30-24GB";
  const auto json = nlohmann::json::parse(plan_json(plan));
  EXPECT_EQ(json["gpus"][0]["instances"][0]["predicted"], true);
  EXPECT_EQ(json["gpus"][0]["instances"][0]["learned_on"], "A30-24GB");
  EXPECT_FALSE(json["gpus"][0]["instances"][1].contains("predicted"));
  EXPECT_EQ(json["services"][0]["predicted"], true);
  EXPECT_FALSE(json["services"][1].contains("predicted"));
  const auto again = parse_plan("p.json", plan_json(plan));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, plan);
}

TEST(PlanJson, HoldsAdvice) {
  EXPECT_FALSE(nlohmann::json::parse(plan_json(plan_to_write())).contains("advice"));
  const std::vector<plan::SloAdvice> advice{
      {"bert", Millis{24}, Millis{20}, Millis{20}, 7, {{Millis{40}, 2}}}};
  const std::string text = plan_json(plan_to_write(), {}, advice);
  EXPECT_EQ(nlohmann::json::parse(text)["advice"],
            nlohmann::json::parse(R"([{"service": "bert", "slo_ms": 24, "fastest_batch_ms": 20,
                "least_slo_ms": 20, "gpus": 7, "options": [{"slo_ms": 40, "gpus": 2}]}])"));
  EXPECT_EQ(*parse_plan("p.json", text), plan_to_write());
}

TEST(PlanJson, NamesTheServerOfThePromise) {
  using plan::Dispatch;
  for (const Dispatch server :
       {Dispatch::pooled, Dispatch::paced, Dispatch::shared_queue, Dispatch::per_process}) {
    for (const SloRule& rule :
         {plan::rule_for(server), SloRule{SloRule::Kind::execution, 0.45, server}}) {
      ServingPlan plan = plan_to_write();
      plan.rule = rule;
      const std::string text = plan_json(plan);
      EXPECT_EQ(nlohmann::json::parse(text)["dispatch"], to_string(server));
      const auto again = parse_plan("p.json", text);
      ASSERT_TRUE(again) << to_string(again.error());
      EXPECT_EQ(again->rule, rule);
    }
  }
}

// ---- plans written by hand ----

constexpr std::string_view kByHand = R"({
"api_version": "partita/v1", "kind": "ServingPlan",
"gpu_model": "A100-80GB",
"gpus": [
  {"index": 0, "instances": [
    {"profile": "3g.40gb", "start": 4, "service": "bert", "batch": 8,
     "processes": 1, "throughput_rps": 10, "latency_ms": 20, "note": "mine"},
    {"profile": "4g.40gb", "start": 0, "service": "bert", "batch": 8,
     "processes": 1, "throughput_rps": 11, "latency_ms": 19}]}],
"services": [
  {"name": "bert", "rate_rps": 20,
   "planned_rps": 21, "slo_ms": 100, "predicted_latency_ms": 80}]
})";

TEST(PlanJson, AcceptsTheRequiredKeysAlone) {
  const auto plan = parse_plan("p.json", kByHand);
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->gpus[0].model, "A100-80GB");
  EXPECT_EQ(plan->gpus[0].instances[0].start, 0);  // sorted
  EXPECT_EQ(plan->gpus[0].instances[1].throughput, Rps{10});
  EXPECT_EQ(plan->rule, SloRule{});
  EXPECT_EQ(plan->objective, (Objective{1, 7, 0, 0, 0, 0, false}));  // counted
  const auto again = parse_plan("p.json", plan_json(*plan));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, *plan);
}

TEST(PlanJson, TheQueueingRuleAloneIsForAPacedServer) {
  std::string text(kByHand);
  text.insert(text.find("\"gpu_model\""), "\"slo_rule\": \"queueing\", ");
  const auto plan = parse_plan("p.json", text);
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->rule, plan::kQueueing);
}

TEST(PlanJson, CountsTheComputeSlicesOfEveryKnownProfile) {
  for (const hw::GpuModel& gpu : hw::builtin_catalogue().gpus) {
    for (const hw::MigProfile& profile : gpu.profiles) {
      std::string text(kByHand);
      text.replace(text.find("3g.40gb"), 7, profile.name);
      const auto plan = parse_plan("p.json", text);
      ASSERT_TRUE(plan) << to_string(plan.error());
      EXPECT_EQ(plan->objective.gpcs, 4 + profile.gpcs) << gpu.name << " " << profile.name;
    }
  }
}

// The refusal of the plan above with one piece of text replaced.
std::string refusal(std::string_view piece, std::string_view replacement) {
  std::string text(kByHand);
  const auto at = text.find(piece);
  if (at == text.npos) return "no such piece";
  text.replace(at, piece.size(), replacement);
  const auto plan = parse_plan("p.json", text);
  if (plan) return "accepted";
  EXPECT_EQ(plan.error().code, ErrorCode::bad_input);
  return to_string(plan.error());
}

struct Malformed {
  const char* piece;
  const char* replacement;
  const char* refusal;
};

TEST(PlanJson, RefusesTheDocumentItself) {
  const Malformed cases[] = {
      {"\"api_version\": \"partita/v1\", ", "", "p.json:1: 'api_version' is missing"},
      {"partita/v1", "partita/v9", "p.json:2: 'api_version' is 'partita/v9', must be 'partita/v1'"},
      {"ServingPlan", "BatchSchedule",
       "p.json:2: 'kind' is 'BatchSchedule', must be 'ServingPlan'"},
      {"\"kind\": \"ServingPlan\"", "\"kind\": 3", "p.json:2: 'kind' must be a text"},
      {"\"A100-80GB\"", "7", "p.json:3: 'gpu_model' must be a text"},
      {"\"gpu_model\": \"A100-80GB\"", "\"planner\": \"x\"", "p.json:1: 'gpu_model' is missing"},
      {"\"gpu_model\"", "\"slo_rule\": \"slow\", \"gpu_model\"",
       "p.json:3: 'slo_rule': 'slow' is neither 'pooled' nor 'queueing' nor 'execution:F' with "
       "0 < F <= 1"},
      {"\"gpu_model\"", "\"dispatch\": \"paced\", \"gpu_model\"",
       "p.json:3: 'dispatch': the rule 'pooled' is not for a server that is paced"},
      {"\"gpu_model\"", "\"slo_rule\": \"queueing\", \"dispatch\": \"pooled\", \"gpu_model\"",
       "p.json:3: 'dispatch': the rule 'queueing' is not for a server that is pooled"},
      {"\"gpu_model\"", "\"stats\": [], \"gpu_model\"", "p.json:3: 'stats' must be an object"},
      {"\"gpu_model\"", "\"stats\": {\"planning_ms\": -1}, \"gpu_model\"",
       "p.json:3: 'planning_ms' is -1, must be at least 0"},
      {"\"gpu_model\"", "\"objective\": {\"gpus\": 1}, \"gpu_model\"",
       "p.json:3: 'gpcs' is missing"},
      {"\"gpu_model\"",
       "\"objective\": {\"gpus\": 1, \"gpcs\": 1, \"lower_bound_gpus\": 1, \"optimal\": 1}, "
       "\"gpu_model\"",
       "p.json:3: 'optimal' must be true or false"},
      {"\"gpu_model\"", "\"explanation\": [3], \"gpu_model\"",
       "p.json:3: 'explanation' must list texts"},
      {"\"gpus\": [", "\"gpus\": [3,", "p.json:4: must be an object with named values"},
      {"\"gpus\"", "\"gpu\"", "p.json:1: 'gpus' is missing"},
      {"\"services\": [", "\"services\": {}, \"more\": [", "p.json:10: 'services' must be a list"},
  };
  for (const Malformed& c : cases) EXPECT_EQ(refusal(c.piece, c.replacement), c.refusal);
  EXPECT_EQ(to_string(parse_plan("p.json", "").error()), "p.json:1: the file is empty");
  EXPECT_EQ(to_string(parse_plan("p.json", "[]").error()),
            "p.json:1: must be an object with named values");
}

TEST(PlanJson, RefusesGpusAndInstances) {
  const Malformed cases[] = {
      {"\"index\": 0", "\"index\": -1", "p.json:5: 'index' is -1, must be at least 0"},
      {"\"index\": 0", "\"index\": 0.5", "p.json:5: 'index' must be a whole number"},
      {"\"index\": 0, ", "", "p.json:5: 'index' is missing"},
      {"\"index\": 0", "\"index\": 0, \"model\": \"\"", "p.json:5: 'model' is empty"},
      {"\"instances\"", "\"instance\"", "p.json:5: 'instances' is missing"},
      {"\"start\": 4", "\"start\": -4", "p.json:6: 'start' is -4, must be at least 0"},
      {"\"start\": 4", "\"start\": 4.5", "p.json:6: 'start' must be a whole number"},
      {"\"start\": 4", "\"start\": 1e18", "p.json:6: 'start' must be a whole number"},
      {"\"start\": 4", "\"start\": \"4\"", "p.json:6: 'start' must be a finite number"},
      {"\"start\": 4", "\"start\": null", "p.json:6: 'start' must be a finite number"},
      {"\"start\": 4, ", "", "p.json:6: 'start' is missing"},
      {"\"3g.40gb\"", "\"3g\\u0000\"", "p.json:6: 'profile' holds the control character U+0000"},
      {"\"batch\": 8", "\"batch\": 0", "p.json:6: 'batch' is 0, must be at least 1"},
      {"\"processes\": 1", "\"processes\": 65", "p.json:7: 'processes' is 65, must be at most 64"},
      {"\"throughput_rps\": 10", "\"throughput_rps\": -10",
       "p.json:7: 'throughput_rps' is -10, must be at least 0"},
      {"\"latency_ms\": 20", "\"latency_ms\": true",
       "p.json:7: 'latency_ms' must be a finite number"},
      {"\"latency_ms\": 20", "\"latency_ms\": 2e12",
       "p.json:7: 'latency_ms' is 2000000000000, must be at most 1e+12"},
      {"\"rate_rps\": 20", "\"rate_rps\": -20", "p.json:11: 'rate_rps' is -20, must be at least 0"},
      {"\"planned_rps\": 21", "\"planned_rps\": []",
       "p.json:12: 'planned_rps' must be a finite number"},
      {", \"predicted_latency_ms\": 80", "", "p.json:11: 'predicted_latency_ms' is missing"},
      {"\"slo_ms\": 100, ", "", "p.json:11: 'slo_ms' is missing"},
      {"\"predicted_latency_ms\": 80", "\"predicted_latency_ms\": \"soon\"",
       "p.json:12: 'predicted_latency_ms' must be a finite number"},
  };
  for (const Malformed& c : cases) EXPECT_EQ(refusal(c.piece, c.replacement), c.refusal);
  // What JSON itself cannot hold is refused with the line by the document reader.
  for (const char* number : {"NaN", "Infinity", "1e999", "0x10", "--1"})
    EXPECT_EQ(refusal("\"latency_ms\": 20", fmt::format("\"latency_ms\": {}", number)).substr(0, 9),
              "p.json:7:");
}

TEST(PlanJson, BoundsTheInstancesOfAGpu) {
  std::string many = "\"instances\": [";
  for (int i = 0; i < 64; ++i) many += "{}, ";
  EXPECT_EQ(refusal("\"instances\": [", many),
            "p.json:5: 'instances' has 66 items, at most 64 are allowed");
}

TEST(PlanJson, keeps_language_models) {
  const std::variant<plan::TokenPair, plan::TokenTrace> kLengths[] = {
      plan::TokenPair{512, plan::LognormalTokens{200, 0}},
      plan::TokenPair{plan::ListedTokens{1, 2}, plan::LognormalTokens{200.5, 1.25}},
      plan::TokenTrace{.file = "azure.csv"},
      plan::TokenTrace{.file = "azure.csv", .in_times = 1.1, .out_times = 0.5}};
  for (const auto& lengths : kLengths) {
    ServingPlan plan;
    plan.gpu_model = "A100-80GB";
    for (int g = 0; g < 2; ++g) {
      PlannedInstance instance{"7g.80gb", 0, "chat", 64, 1, Rps{3}, Millis{20}};
      instance.engine = {"m fp8 on a100, vllm 1, tp 2", "vllm", "1", "fp8", 2};
      instance.group = 2;
      plan.gpus.push_back({g, "A100-80GB", {instance}});
    }
    PlannedService& row = plan.services.emplace_back();
    row.name = "chat";
    row.model = "m";
    row.rate = Rps{4};
    row.tokens = plan::TokenTerms{.ttft = Millis{500},
                                  .tpot = Millis{0},
                                  .lengths = lengths,
                                  .prefix_share = 0.25,
                                  .prefix_tokens = 32};
    row.outlook = plan::TokenOutlook{800.5, 2, 1.75, 0.25, plan::TokenLimit::kv};
    plan.objective.gpus = 2;
    const auto again = parse_plan("p.json", plan_json(plan));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, plan);
    EXPECT_EQ(again->services[0].outlook, row.outlook);
  }
}

}  // namespace
}  // namespace partita::forms
