#include <gtest/gtest.h>

#include <fmt/format.h>

#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

std::string fault_of(std::string_view text) {
  const auto services = parse_services("s.yaml", text);
  if (services) return "accepted";
  EXPECT_EQ(services.error().code, ErrorCode::bad_input);
  return to_string(services.error());
}

TEST(Services, ReadsYamlAndJsonAlike) {
  constexpr std::string_view kYaml = R"(api_version: partita/v1
kind: Services
services:
  - name: chat      # comments are fine
    model: bert
    rate_rps: 19.5
    slo_ms: 6434
  - {name: 7, model: resnet50, rate_rps: 1e3, slo_ms: 200, percentile: 95,
     min_replicas: 2, anti_affinity: [chat, 7]}
  - {name: "<q>", model: bert, rate_rps: 1, slo_ms: 2, anti_affinity: true}
)";
  constexpr std::string_view kJson = R"({"services": [
  {"name": "chat", "model": "bert", "rate_rps": 19.5, "slo_ms": 6434},
  {"name": "7", "model": "resnet50", "rate_rps": 1000, "slo_ms": 200, "percentile": 95.0,
   "min_replicas": 2, "anti_affinity": ["chat", "7"]},
  {"name": "<q>", "model": "bert", "rate_rps": 1, "slo_ms": 2, "anti_affinity": true}]})";
  std::vector<Service> expected(3);
  expected[0] = {"chat", "bert", Rps{19.5}, Millis{6434}, 99, 1, false, {}, 0};
  expected[1] = {"7", "resnet50", Rps{1000}, Millis{200}, 95, 2, true, {"chat"}, 0};
  expected[2] = {"<q>", "bert", Rps{1}, Millis{2}, 99, 1, true, {}, 0};
  const auto yaml = parse_services("s.yaml", kYaml);
  ASSERT_TRUE(yaml) << to_string(yaml.error());
  EXPECT_EQ(*yaml, expected);
  EXPECT_EQ(yaml->at(1).line, 8);
  const auto json = parse_services("s.json", kJson);
  ASSERT_TRUE(json) << to_string(json.error());
  EXPECT_EQ(*json, expected);
  EXPECT_EQ(json->at(1).line, 3);
}

struct MalformedServices {
  const char* text;
  const char* refusal;
};

TEST(Services, HaveCaches) {
  const auto services = parse_services("s.yaml", R"(services:
  - {name: a, model: m, rate_rps: 1, slo_ms: 2, cache: {memory_mib: 64}}
  - {name: b, model: m, rate_rps: 1, slo_ms: 2, cache: {memory_mib: 1.5, ttl_s: 0.5, shared: true}}
  - {name: c, model: m, rate_rps: 1, slo_ms: 2, lengths: [1, 9], buckets: 2, cache: {memory_mib: 2}}
)");
  ASSERT_TRUE(services) << to_string(services.error());
  ASSERT_EQ(services->size(), 4U);
  EXPECT_EQ((*services)[0].cache, plan::CacheTerms{.memory = Mib{64}});
  EXPECT_EQ((*services)[1].cache,
            (plan::CacheTerms{.memory = Mib{1.5}, .ttl = Seconds{0.5}, .shared = true}));
  for (const std::size_t bucket : {2, 3})
    EXPECT_EQ((*services)[bucket].cache, plan::CacheTerms{.memory = Mib{2}});
  const auto fault = [](const std::string& keys) {
    return fault_of("services:\n  - {name: a, rate_rps: 4, " + keys + "}");
  };
  const std::string one = "model: m, slo_ms: 9, cache: ";
  EXPECT_EQ(fault(one + "{}"), "s.yaml:2: 'memory_mib' is missing");
  EXPECT_EQ(fault(one + "64"), "s.yaml:2: 'cache' must be an object");
  EXPECT_EQ(fault(one + "{memory_mib: 0}"), "s.yaml:2: 'memory_mib' is 0, must be at least 1");
  EXPECT_EQ(fault(one + "{memory_mib: 1000001}"),
            "s.yaml:2: 'memory_mib' is 1000001, must be at most 1e+06");
  EXPECT_EQ(fault(one + "{memory_mib: 1, ttl_s: 0}"), "s.yaml:2: 'ttl_s' is 0, must be above 0");
  EXPECT_EQ(fault(one + "{memory_mib: 1, shared: 1}"), "s.yaml:2: 'shared' must be true or false");
  EXPECT_EQ(fault(one + "{memory: 1}"),
            "s.yaml:2: unknown key 'memory'; did you mean 'memory_mib'?");
  EXPECT_EQ(fault("model: m, kind: llm, slo: {ttft_ms: 9}, tokens: {in: 1, out: 1}, cache: "
                  "{memory_mib: 1}"),
            "s.yaml:2: 'cache' does not go together with 'kind'");
  EXPECT_EQ(fault(one + "{memory_mib: 1}, models: {list: [x], memory_mib: 1, load_ms: 1}"),
            "s.yaml:2: 'cache' does not go together with 'models'");
  EXPECT_EQ(fault("slo_ms: 9, cache: {memory_mib: 1}, pipeline: {steps: []}"),
            "s.yaml:2: 'cache' is not for a pipeline: give one to its steps");
}

// One service per bucket, each with its part of the rate.
TEST(Services, HaveBuckets) {
  const auto services = parse_services("s.yaml", R"(services:
  - {name: bert, model: base, rate_rps: 100, slo_ms: 50, anti_affinity: [b, bert],
     lengths: [{length: 10, share: 0.6}, {length: 60, share: 0.3}, {length: 64, share: 0.1}],
     buckets: [16, 32, 64], arrivals: uniform}
  - {name: b, model: base, rate_rps: 8, slo_ms: 50, anti_affinity: [bert], buckets: 2,
     lengths: [1, 2, 3, 100]}
)");
  ASSERT_TRUE(services) << to_string(services.error());
  ASSERT_EQ(services->size(), 4U);
  const Service& small = (*services)[0];
  EXPECT_EQ(small.name, "bert~16");
  EXPECT_EQ(small.model, "base~16");
  EXPECT_NEAR(small.rate.value, 60, 1e-9);
  EXPECT_TRUE(small.spread);
  EXPECT_EQ(small.avoid, (std::vector<std::string>{"b~3", "b~100"}));
  EXPECT_TRUE(plan::is_poisson(small.traffic.arrivals));  // of 60 % at random
  // 10 x 0.6 + 60 x 0.3 + 64 x 0.1 of 16 x 0.6 + 64 x 0.4; nothing is as long as 32.
  EXPECT_NEAR(small.padding, 1 - 30.4 / 35.2, 1e-12);
  EXPECT_EQ((*services)[1].name, "bert~64");
  EXPECT_NEAR((*services)[1].rate.value, 40, 1e-9);
  EXPECT_EQ((*services)[2].name, "b~3");
  EXPECT_NEAR((*services)[2].rate.value, 6, 1e-9);
  EXPECT_EQ((*services)[3].avoid, (std::vector<std::string>{"bert~16", "bert~64"}));
}

TEST(Services, ReadLengthsFromAFile) {
  const FileText files = [](const std::string& file) -> Result<std::string> {
    if (file == "l.csv") return "at,tokens,count\n0,5,3\n1,9,1\n";
    return environment_error(file, "no such file");
  };
  const auto services = [&](const std::string& lengths) {
    return parse_services("s.yaml",
                          "services:\n  - {name: a, model: m, rate_rps: 4, slo_ms: 9, buckets: 2, "
                          "lengths: " +
                              lengths + "}",
                          files);
  };
  const auto two = services("{file: l.csv, column: tokens}");
  ASSERT_TRUE(two) << to_string(two.error());
  ASSERT_EQ(two->size(), 2U);
  EXPECT_NEAR((*two)[0].rate.value, 3, 1e-9);
  EXPECT_EQ(to_string(services("l.csv").error()),
            "s.yaml:2: 'lengths': l.csv:1: there is no column 'length'");
  EXPECT_EQ(to_string(services("n.csv").error()), "s.yaml:2: 'lengths': n.csv: no such file");
}

TEST(Services, RefuseBucketsWithTheirLine) {
  const auto fault = [](const std::string& keys) {
    return fault_of("services:\n  - {name: a, model: m, rate_rps: 4, slo_ms: 9, " + keys + "}");
  };
  EXPECT_EQ(fault("buckets: 2"), "s.yaml:2: 'buckets' need 'lengths': how long requests are");
  EXPECT_EQ(fault("lengths: [2]"),
            "s.yaml:2: 'lengths' need 'buckets': how many, or the lengths that were measured");
  EXPECT_EQ(fault("lengths: [9, 70], buckets: [8, 64]"),
            "s.yaml:2: 'lengths' go up to 70, and the last bucket is 64");
  for (const char* bad : {"[]", "[0]", "[1.5]", "7", "[{length: 3}]", "[{length: 3, share: 0}]",
                          "[{length: 3, share: 1, x: 2}]", "file.csv"})
    EXPECT_NE(fault(std::string("buckets: 1, lengths: ") + bad), "accepted") << bad;
  for (const char* bad : {"[]", "0", "65", "[0]", "x"})
    EXPECT_NE(fault(std::string("lengths: [3], buckets: ") + bad), "accepted") << bad;
}

TEST(Services, RefusesTheDocumentItself) {
  const MalformedServices cases[] = {
      {"", "s.yaml:1: the file is empty"},
      {"- a\n- b\n", "s.yaml:1: must be an object with named values"},
      {"service:\n  - a\n", "s.yaml:2: unknown key 'service'; did you mean 'services'?"},
      {"kind: Services\n", "s.yaml:1: 'services' is missing"},
      {"kind: ServingPlan\nservices: []\n",
       "s.yaml:1: 'kind' is 'ServingPlan', must be 'Services'"},
      {"services: 3\n", "s.yaml:1: 'services' must be a list"},
      {"services: []\n", "s.yaml:1: 'services' is empty"},
      {"\nservices:\n  - bert\n", "s.yaml:3: must be an object with named values"},
      {"api_version: partita/v2\nservices: []\n",
       "s.yaml:1: 'api_version' is 'partita/v2', must be 'partita/v1'"},
      {"survive: rack\nservices: []\n", "s.yaml:1: 'survive' is 'rack', must be 'gpu'"},
  };
  for (const MalformedServices& c : cases) EXPECT_EQ(fault_of(c.text), c.refusal);
}

// One service with a line replaced, in line 4 of the file.
std::string with_line(const std::string& line) {
  return fmt::format("services:\n  - name: bert\n    model: bert\n    {}\n", line);
}

TEST(Services, RefusesValuesWithTheirLine) {
  const MalformedServices cases[] = {
      {"rate_rps: 0\n    slo_ms: 1", "s.yaml:4: 'rate_rps' is 0, must be above 0"},
      {"rate_rps: -3\n    slo_ms: 1", "s.yaml:4: 'rate_rps' is -3, must be above 0"},
      {"rate_rps: 1e13\n    slo_ms: 1",
       "s.yaml:4: 'rate_rps' is 10000000000000, must be at most 1e+12"},
      {"rate_rps: fast\n    slo_ms: 1", "s.yaml:4: 'rate_rps' must be a finite number"},
      {"rate_rps: .nan\n    slo_ms: 1", "s.yaml:4: 'rate_rps' must be a finite number"},
      {"rate_rps: [1]\n    slo_ms: 1", "s.yaml:4: 'rate_rps' must be a finite number"},
      {"rate_rps: ~\n    slo_ms: 1", "s.yaml:4: 'rate_rps' must be a finite number"},
      {"rate_rps: 1", "s.yaml:2: 'slo_ms' is missing"},
      {"slo_ms: 1", "s.yaml:2: 'rate_rps' is missing"},
      {"rate_rps: 1\n    slo_ms: 1\n    priority: 1.5",
       "s.yaml:6: 'priority' must be a whole number"},
      {"rate_rps: 1\n    slo_ms: 1\n    priority: 1001",
       "s.yaml:6: 'priority' is 1001, must be at most 1000"},
      {"rate_rps: 1\n    slo_ms: 0", "s.yaml:5: 'slo_ms' is 0, must be above 0"},
      {"rate: 1\n    slo_ms: 1", "s.yaml:4: unknown key 'rate'; did you mean 'rate_rps'?"},
      {"rate_rsp: 1\n    slo_ms: 1", "s.yaml:4: unknown key 'rate_rsp'; did you mean 'rate_rps'?"},
      {"gpu_memory_in_total: 1",
       "s.yaml:4: unknown key 'gpu_memory_in_total'; known keys: name, kind, model, pipeline, "
       "rate_rps, slo_ms, percentile, slo, tokens, prefix, min_replicas, anti_affinity, models, "
       "cache, priority, headroom, arrivals, trace, rates, lengths, buckets"},
      {"model: again", "s.yaml:4: duplicate key 'model'"},
  };
  for (const MalformedServices& c : cases) EXPECT_EQ(fault_of(with_line(c.text)), c.refusal);
}

TEST(Services, ReadsLanguageModels) {
  const auto services = parse_services("s.yaml", R"(services:
  - name: chat
    kind: llm
    model: m
    rate_rps: 4
    slo: {ttft_ms: 500, tpot_ms: 40, e2e_ms: 9000, percentile: 95}
    tokens: {in: {mean: 800, cv: 1.5}, out: [10, 20, 30]}
    prefix: {share: 0.5, tokens: 64}
  - {name: code, kind: llm, model: m, rate_rps: 1, slo: {e2e_ms: 5000}, tokens: {trace: a.csv}}
  - {name: plain, model: r, rate_rps: 1, slo_ms: 5}
)");
  ASSERT_TRUE(services) << services.error().message;
  const Service& chat = services->at(0);
  ASSERT_TRUE(chat.tokens);
  EXPECT_EQ(chat.slo, Millis{9000});
  EXPECT_EQ(chat.percentile, 95);
  const plan::TokenTerms wanted{
      .ttft = Millis{500},
      .tpot = Millis{40},
      .lengths = plan::TokenPair{plan::LognormalTokens{800, 1.5}, plan::ListedTokens{10, 20, 30}},
      .prefix_share = 0.5,
      .prefix_tokens = 64};
  EXPECT_EQ(*chat.tokens, wanted);
  EXPECT_EQ(services->at(1).tokens->ttft, Millis{0});
  EXPECT_EQ(std::get<plan::TokenTrace>(services->at(1).tokens->lengths).file, "a.csv");
  EXPECT_FALSE(services->at(2).tokens);
}

TEST(Services, RefusesLanguageModelsWithTheirLine) {
  const auto fault = [](const std::string& more) {
    return fault_of("services:\n  - {name: a, model: m, rate_rps: 1, " + more + "}\n");
  };
  const std::string kFixed = "tokens: {in: 8, out: 8}";
  EXPECT_EQ(fault("kind: llm, slo_ms: 5, slo: {ttft_ms: 5}, " + kFixed),
            "s.yaml:2: a service of kind llm has no slo_ms; write slo: {ttft_ms: 500, tpot_ms: "
            "50}, or e2e_ms for the whole answer");
  EXPECT_EQ(fault("kind: llm, slo: {}, " + kFixed),
            "s.yaml:2: 'slo' promises nothing: give ttft_ms, tpot_ms or e2e_ms");
  EXPECT_EQ(fault("slo_ms: 5, " + kFixed),
            "s.yaml:2: 'tokens' is for services of kind llm: add kind: llm");
  EXPECT_EQ(fault("kind: llm, slo: {ttft_ms: 5}, tokens: {in: 8}"),
            "s.yaml:2: 'tokens' has no "
            "'out'");
  EXPECT_EQ(fault("kind: llm, slo: {ttft_ms: 5}, tokens: {in: 8, out: 8, trace: a.csv}"),
            "s.yaml:2: 'tokens' has a trace, which says both 'in' and 'out'");
  EXPECT_EQ(fault("kind: llm, slo: {ttft_ms: 5}, tokens: {in: 0.5, out: 8}"),
            "s.yaml:2: 'in' must be a number of tokens, {mean: M, cv: C} or a list of numbers, 1 "
            "to 100000000");
  const std::string kLong =
      "kind: llm, slo: {ttft_ms: 5}, prefix: {share: 1, tokens: 8}, tokens: {in: ";
  EXPECT_EQ(fault(kLong + "[3, 8], out: 8}"),
            "s.yaml:2: 'tokens' is 8: a prefix is shorter than the prompt that begins with it, and "
            "no prompt is longer than 8");
}

TEST(Services, RefusesOptionsWithTheirLine) {
  const MalformedServices cases[] = {
      {"percentile: 0", "s.yaml:6: 'percentile' is 0, must be above 0"},
      {"percentile: 0.99",
       "s.yaml:6: 'percentile' is 0.99: so many percent of the answers must be in time, at least "
       "50; did you mean 99?"},
      {"percentile: 0.999",
       "s.yaml:6: 'percentile' is 0.999: so many percent of the answers must be in time, at least "
       "50; did you mean 99.9?"},
      {"percentile: 1",
       "s.yaml:6: 'percentile' is 1: so many percent of the answers must be in time, at least 50"},
      {"percentile: 49.9",
       "s.yaml:6: 'percentile' is 49.9: so many percent of the answers must be in time, at least "
       "50"},
      {"percentile: 100", "s.yaml:6: 'percentile' is 100, must be below 100"},
      {"min_replicas: 0", "s.yaml:6: 'min_replicas' is 0, must be at least 1"},
      {"min_replicas: 1.5", "s.yaml:6: 'min_replicas' must be a whole number"},
      {"min_replicas: 1e9", "s.yaml:6: 'min_replicas' is 1000000000, must be at most 100000"},
      {"anti_affinity: 3",
       "s.yaml:6: 'anti_affinity' must be true, false or a list of service names"},
      {"anti_affinity:\n      - resnet",
       "s.yaml:2: 'anti_affinity' of service 'bert' names 'resnet', which is not a service of this "
       "file"},
      {"anti_affinity:\n      - [bert]", "s.yaml:7: a name in 'anti_affinity' must be a text"},
      {"anti_affinity:\n      - x\n      - x", "s.yaml:8: 'anti_affinity' names 'x' twice"},
  };
  for (const MalformedServices& c : cases)
    EXPECT_EQ(fault_of(with_line(fmt::format("rate_rps: 1\n    slo_ms: 1\n    {}", c.text))),
              c.refusal);
}

TEST(Services, RefusesNames) {
  const auto named = [](std::string_view name) {
    return fmt::format("services:\n  - {{model: m, rate_rps: 1, slo_ms: 1,\n     name: {}}}\n",
                       name);
  };
  EXPECT_EQ(fault_of(named("\"\"")), "s.yaml:3: 'name' is empty");
  EXPECT_EQ(fault_of(named("[a]")), "s.yaml:3: 'name' must be a text");
  EXPECT_EQ(fault_of(named("\"a\\nb\"")), "s.yaml:3: 'name' holds the control character U+000A");
  EXPECT_EQ(fault_of(named("\"\\e[2J\"")), "s.yaml:3: 'name' holds the control character U+001B");
  EXPECT_EQ(fault_of(named(std::string(129, 'n'))), "s.yaml:3: 'name' is longer than 128 bytes");
  EXPECT_EQ(fault_of("services:\n- {name: a, model: m, rate_rps: 1, slo_ms: 1}\n"
                     "- {name: a, model: n, rate_rps: 1, slo_ms: 1}\n"),
            "s.yaml:3: service 'a' is already defined in line 2");
}

}  // namespace
}  // namespace partita::forms
