// Language models under the loop: lengths and speeds that are not as was said.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "control/desired.h"
#include "control/planning.h"
#include "control/testing/node_in_memory.h"
#include "decide/expected_tokens.h"

namespace partita::control {
namespace {

// Of every size of instance, as fast as it has compute slices.
World language_world() {
  World world = small_world(automatic());
  for (const auto& [profile, gpcs] :
       std::map<std::string, int>{{"1g.10gb", 1}, {"2g.20gb", 2}, {"3g.40gb", 3}, {"7g.80gb", 7}}) {
    profile::TokenEngine engine{.name = {"an engine"}, .mig_profile = profile};
    engine.spec.cost = {.step = 40.0 / gpcs, .sequence = 1.0 / gpcs, .prompt_token = 0.5 / gpcs};
    engine.spec.sequences = 32;
    engine.most_in = engine.most_out = 4096;
    world.profiles.front().engines["lm"].push_back(engine);
  }
  return world;
}

std::string language_file(int in, int out) {
  return fmt::format(
      "services:\n  - {{name: chat, model: lm, kind: llm, rate_rps: 6, tokens: {{in: {}, out: {}}},"
      " slo: {{ttft_ms: 2000, tpot_ms: 60, percentile: 95}}}}\n",
      in, out);
}

// A promise, not only what was written down of it.
bool misses(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  const auto verdict = verify::judge(problem, plan);
  return !verdict && std::ranges::any_of(verdict.error().violations, [](const auto& one) {
    return one.constraint != "problem_digest" && one.constraint != "service_row";
  });
}

// Whether the plan in force keeps the promise to requests of these lengths, at the file's rate:
// what the judge says but that it was made for others.
bool keeps(const Loop& loop, const NodeInMemory& node, int in, int out) {
  const World world = language_world();
  const GpuUse use = gpus_for_services(world, node.state, {});
  const Want want{wanted_services(language_file(in, out))->services, 0, {}};
  return !misses(problem_of(world, use, want, false), loop.memory().target->plan);
}

TEST(Loop, PlansALanguageModelForRequestsAsLongAsTheyAre) {
  NodeInMemory node(4);
  Loop loop(language_world(), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(language_file(200, 50)));
  node.rates["chat"] = 6;
  node.tokens["chat"] = {6 * 210.0, 6 * 52.0, 210, 52};
  node.run(loop, now, now + kHourMs / 2);
  EXPECT_TRUE(keeps(loop, node, 200, 50));
  EXPECT_FALSE(keeps(loop, node, 400, 150));
  const std::size_t told = node.notices.size();
  const int applied = node.applies;

  node.tokens["chat"] = {6 * 400.0, 6 * 150.0, 400, 150};
  node.run(loop, now, now + 2 * kHourMs);
  EXPECT_TRUE(keeps(loop, node, 400, 150));
  EXPECT_GT(node.applies, applied);
  EXPECT_LE(node.notices.size(), told + 20);
  const auto is_told = [](const LoopNotice& one) {
    return one.sentence.find("the services file says 200 and 50") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(node.notices, is_told));

  // An agent that begins anew knows it from the start, and so does a preview.
  Loop second(language_world(), *node.remembered, 0);
  node.step(second, now += 1000);
  EXPECT_EQ(second.memory().lengths, loop.memory().lengths);
  EXPECT_TRUE(second.snapshot().converged) << second.snapshot().doing;
  // Who says other lengths is believed until they are measured.
  node.tokens.clear();
  node.step(second, now += 1000, with_services(language_file(20, 5)));
  EXPECT_EQ(second.memory().lengths, (std::vector<LengthKept>{{"chat", 20, 5, 1, 1}}));
}

TEST(Loop, PlansALanguageModelWithEnginesAsFastAsTheyAre) {
  NodeInMemory node(4);
  Loop loop(language_world(), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(language_file(200, 50)));
  node.rates["chat"] = 6;
  node.tokens["chat"] = {6 * 200.0, 6 * 50.0, 200, 50};
  node.run(loop, now, now + kHourMs / 2);
  const plan::ServingPlan first = loop.memory().target->plan;
  // What requests take on engines that are half as fast, on whatever is planned.
  World slow = language_world();
  for (profile::TokenEngine& one : slow.profiles.front().engines["lm"])
    for (double* cost : {&one.spec.cost.step, &one.spec.cost.sequence, &one.spec.cost.prompt_token})
      *cost *= 2;
  const std::int64_t end = now + 3 * kHourMs;
  while (now < end) {
    const GpuUse use = gpus_for_services(slow, node.state, {});
    const Want want{wanted_services(language_file(200, 50))->services, 0, {}};
    const plan::ServingProblem problem = problem_of(slow, use, want, false);
    node.tokens["chat"].tpot_p50_ms = decide::expected_tpot({problem, loop.memory().target->plan,
                                                             problem.services.front(), Rps{6}})
                                          .value;
    node.run(loop, now, now + kMinuteMs);
  }
  ASSERT_EQ(loop.memory().speeds.size(), 1U);
  EXPECT_GE(loop.memory().speeds.front().slower, 1.9);
  EXPECT_LE(loop.memory().speeds.front().slower, 2.4);
  const auto read = parse_memory("memory", memory_json(loop.memory()));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->speeds, loop.memory().speeds);
  EXPECT_EQ(read->lengths, loop.memory().lengths);
  // The plan in force keeps the promise on such engines; the first did not.
  const GpuUse use = gpus_for_services(slow, node.state, {});
  const Want want{wanted_services(language_file(200, 50))->services, 0, {}};
  const plan::ServingProblem truth = problem_of(slow, use, want, false);
  EXPECT_TRUE(misses(truth, first));
  EXPECT_FALSE(misses(truth, loop.memory().target->plan));
  Loop second(language_world(), *node.remembered, 0);
  node.step(second, now += 1000);
  EXPECT_TRUE(second.snapshot().converged) << second.snapshot().doing;
}

TEST(Loop, LengthsOfATraceAreRefusedForLanguageModels) {
  NodeInMemory node(1);
  Loop loop(language_world(), {}, 0);
  const auto refused = [&](const std::string& text) {
    const Deeds deeds = node.step(loop, kMonday, with_request(SetServices{text}));
    return deeds.replies.front() ? std::string() : deeds.replies.front().error().message;
  };
  const std::string one = "  - {name: c, model: lm, kind: llm, rate_rps: 1, slo: {ttft_ms: 900},";
  EXPECT_NE(refused("services:\n" + one + " tokens: {trace: t.csv}}\n").find("trace 't.csv'"),
            std::string::npos);
  EXPECT_NE(
      refused("services:\n  - {name: c, model: m, kind: llm, rate_rps: 1, slo: {ttft_ms: 900}, "
              "tokens: {in: 9, out: 9}}\n")
          .find("no points of the language model 'm'"),
      std::string::npos);
}

// The lengths of a trace that was there when the agent began are those that it plans for, after a
// restart, too: as a list of the same does.
TEST(Loop, PlansForTheLengthsOfATrace) {
  std::vector<plan::TracedRequest> requests;
  for (int k = 0; k < 50; ++k) requests.push_back({Seconds{1.0 * k}, 150 + 2 * k, 40 + k % 20});
  World world = language_world();
  world.token_traces["t.csv"] =
      std::make_shared<const std::vector<plan::TracedRequest>>(std::move(requests));
  std::string file = language_file(200, 50);
  const std::string fixed = "{in: 200, out: 50}";
  file.replace(file.find(fixed), fixed.size(), "{trace: t.csv}");
  NodeInMemory node(4);
  Loop loop(world, {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(file));
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.memory().target);
  const plan::ServingPlan first = loop.memory().target->plan;
  EXPECT_GT(gpus_in_use(first), 0);
  const GpuUse use = gpus_for_services(world, node.state, {});
  const Want want{wanted_services(file, world.token_traces)->services, 0, {}};
  EXPECT_TRUE(verify::judge(problem_of(world, use, want, false), first));
  node.rates["chat"] = 6;
  node.tokens["chat"] = {6 * 200.0, 6 * 50.0, 200, 50};
  node.run(loop, now, now + kHourMs / 2);
  Loop again(world, loop.memory(), now);
  node.run(again, now, now + kHourMs / 2);
  EXPECT_TRUE(again.snapshot().converged) << again.snapshot().doing;
  EXPECT_TRUE(node.violations.empty());
  // Answers are twice as long: the plan is for such a trace, and is kept over a restart.
  node.tokens["chat"] = {6 * 200.0, 6 * 100.0, 200, 100};
  node.run(again, now, now + 3 * kHourMs);
  auto longer = want;
  auto& trace = std::get<plan::TokenTrace>(longer.services.front().tokens->lengths);
  trace.out_times = again.memory().lengths.front().out;
  const double mean = 100 / plan::mean_of(*want.services.front().tokens).out;
  EXPECT_GE(trace.out_times, mean / 1.06);
  EXPECT_LE(trace.out_times, mean * 1.1);
  const plan::ServingProblem truth = problem_of(world, use, longer, false);
  EXPECT_TRUE(misses(truth, first));
  EXPECT_FALSE(misses(truth, again.memory().target->plan));
  Loop third(world, *node.remembered, now);
  node.step(third, now += 1000);
  EXPECT_TRUE(third.snapshot().converged) << third.snapshot().doing;
}

// With the margin for a lost GPU there are replicas on several, each of which may go; when one has
// gone the margin goes first.
TEST(Loop, KeepsALanguageModelWhenAGpuIsLost) {
  World world = language_world();
  world.settings.survive = -1;  // as the file says
  NodeInMemory node(3);
  Loop loop(world, {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services("survive: gpu\n" + language_file(200, 50)));
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.memory().target);
  EXPECT_EQ(loop.memory().target->survive, 1);
  const plan::ServingPlan before = loop.memory().target->plan;
  EXPECT_GE(gpus_in_use(before), 2);
  node.rates["chat"] = 6;
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_GE(node.capacity("chat"), 6);
  node.state.gpus[0].lost = true;
  node.state.gpus[0].instances.clear();
  EXPECT_GE(node.capacity("chat"), 6);  // the others carry it, as they are
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_GE(node.capacity("chat"), 6);
  EXPECT_TRUE(node.violations.empty());
}

// By priority, as for others: the one below gets what is left.
TEST(Loop, ServesLanguageModelsByPriority) {
  for (const std::string first : {"chat", "code"}) {
    const std::string second = first == "chat" ? "code" : "chat";
    World world = language_world();
    if (first == "code") world.settings.priority = {{"chat", -1}, {"code", 0}};
    std::string file = "services:\n";
    for (const char* const name : {"chat", "code"})
      file += fmt::format(
          "  - {{name: {}, model: lm, kind: llm, rate_rps: 18, tokens: {{in: 200, out: 50}},"
          " slo: {{ttft_ms: 2000, tpot_ms: 60, percentile: 95}}, priority: {}}}\n",
          name, std::string_view(name) == "chat" ? 2 : 1);  // settings are stronger
    NodeInMemory node(2);
    Loop loop(world, {}, 0);
    std::int64_t now = kMonday;
    node.step(loop, now, with_services(file));
    node.step(loop, now += 1000);
    ASSERT_TRUE(loop.memory().target->reduced.empty()) << loop.memory().target->reduced;
    node.state.gpus[1].lost = true;
    node.state.gpus[1].instances.clear();
    node.step(loop, now += 1000);
    node.step(loop, now += 1000);
    EXPECT_GE(node.capacity(first), 18) << first;
    EXPECT_LT(node.capacity(second), 18) << first;
    EXPECT_GT(node.capacity(second), 0) << first;
    EXPECT_NE(loop.memory().target->reduced.find(second), std::string::npos);
    EXPECT_EQ(loop.memory().target->reduced.find(first + " "), std::string::npos);
  }
}

}  // namespace
}  // namespace partita::control
