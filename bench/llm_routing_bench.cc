// Which engine gets a request: by expected TTFT and TPOT, in turn, or by fewest requests, with four
// engines that take their time in earnest. Requests are of tenants, each with a beginning of its
// own; arrivals and lengths are the same for all three. Goodput: answers that kept TTFT and TPOT.
//
//   llm_routing_bench --benchmark_filter=...    PARTITA_ROUTING_S=20: seconds of arrivals each
//
// PARTITA_ROUTING_ENGINES=URL,URL,...: engines that run already, tools/llm_engine with a model of 4
// layers of width 512, in place of the four; requests are shorter then, and fewer.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "plan/tokens.h"
#include "serve/engines/engine_pool.h"
#include "serve/standin/standin.h"

namespace {

namespace plan = partita::plan;
namespace profile = partita::profile;
using partita::Millis;
using partita::Rng;
using partita::serve::Denial;
using partita::serve::EngineAsk;
using partita::serve::EngineCall;
using partita::serve::EnginePool;
using partita::serve::EngineService;
using partita::serve::Loop;
using partita::serve::Routing;
using partita::serve::Standin;
using partita::serve::TokenCounters;
using partita::serve::TokenService;

constexpr int kEngines = 4;

struct Load {
  int tenants, prefix_words;
  plan::LognormalTokens in, out;
  profile::EngineSpec spec;
};

const Load kStandins{
    100,
    1500,
    {200, 1.0},
    {80, 0.8},
    {.cost = {.step = 12, .sequence = 0.25, .cached_token = 0.0002, .prompt_token = 0.12},
     .step_tokens = 512,
     .sequences = 64,
     .blocks = 3'000}};
// As `profile measure` found it on a core of the machine that docs/results/llm.md tells of.
const Load kReal{40,
                 400,
                 {40, 0.8},
                 {16, 0.8},
                 {.cost = {.step = 2.5, .sequence = 1.0, .prompt_token = 0.45},
                  .step_tokens = 256,
                  .sequences = 16,
                  .blocks = 2'048}};

std::vector<std::string> running() {
  const char* const said = std::getenv("PARTITA_ROUTING_ENGINES");
  std::vector<std::string> urls;
  std::stringstream list(said ? said : "");
  for (std::string one; std::getline(list, one, ',');) urls.push_back(one);
  return urls;
}

// A token each for who answers: words of the model's for a real one.
std::string words(const Load& load, int count, Rng& rng) {
  static constexpr std::array kCommon{"the", "of", "and", "to", "in", "is", "that", "for"};
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (&load == &kReal ? std::string(kCommon[rng.below(kCommon.size())])
                             : "w" + std::to_string(rng.below(10'000))) +
            " ";
  return text;
}

struct Drawn {
  std::int64_t at = 0;
  std::string body;
};

// Tenants are unequal: the one numbered k sends 1/k of what the first does.
std::vector<Drawn> requests(const Load& load, double rate, double seconds) {
  Rng rng(7);
  std::vector<std::string> prefixes;
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < load.tenants; ++i) {
    prefixes.push_back(words(load, load.prefix_words, rng));
    weights.push_back(sum += 1.0 / (1 + i));
  }
  std::vector<Drawn> all;
  for (double at = 0; (at += rng.exponential() / rate) < seconds;) {
    const double dice = rng.uniform() * sum;
    const auto tenant = static_cast<std::size_t>(
        std::lower_bound(weights.begin(), weights.end(), dice) - weights.begin());
    const int in = plan::drawn(plan::Tokens(load.in), rng);
    const int out = plan::drawn(plan::Tokens(load.out), rng);
    all.push_back({static_cast<std::int64_t>(at * 1e9),
                   R"({"model":"chat","stream":true,"max_tokens":)" + std::to_string(out) +
                       R"(,"prompt":")" + prefixes[tenant] +
                       words(load, std::min(in, 2 * load.prefix_words), rng) + "\"}"});
  }
  return all;
}

TokenService promised(const Load& load) {
  TokenService service;
  service.name = service.model = "chat";
  service.tokens.emplace();
  service.tokens->lengths = plan::TokenPair{load.prefix_words + static_cast<int>(load.in.mean),
                                            static_cast<int>(load.out.mean)};
  service.tokens->ttft = Millis{600};
  service.tokens->tpot = Millis{40};
  return service;
}

void route(benchmark::State& state, Routing routing, bool shed) {
  const char* const said = std::getenv("PARTITA_ROUTING_S");
  const double seconds = said ? std::atof(said) : 20;
  const double rate = static_cast<double>(state.range(0));
  const std::vector<std::string> urls = running();
  const Load& load = urls.empty() ? kStandins : kReal;
  for (auto _ : state) {
    auto loop = Loop::make().value();
    std::vector<std::unique_ptr<Standin>> engines;
    TokenService service = promised(load);
    for (const std::string& url : urls)
      service.engines.push_back({.url = url, .sequences = load.spec.sequences});
    for (int i = 0; i < kEngines && urls.empty(); ++i) {
      engines.push_back(Standin::open(*loop, {.model = "chat", .spec = load.spec}).value());
      service.engines.push_back(
          {.url = "http://127.0.0.1:" + std::to_string(engines.back()->port()), .sequences = 64});
    }
    profile::TokenEngine known;
    known.spec = load.spec;
    EnginePool pool(*loop, {.routing = routing, .shed = shed, .engines = {{"chat", {known}}}},
                    nullptr);
    pool.serve({service});
    EngineService& chat = *pool.find("chat");
    const auto all_ready = [&] {
      for (const auto& one : chat.engines().here())
        if (!one->ready()) return false;
      return true;
    };
    while (!all_ready()) loop->run_until(Loop::now_ns() + 10'000'000);

    const std::vector<Drawn> drawn = requests(load, rate, seconds);
    std::set<std::shared_ptr<EngineCall>> open;
    std::size_t next = 0;
    const std::int64_t zero = Loop::now_ns() + 10'000'000;
    Loop::Timer sender(*loop, [&](std::int64_t) {
      while (next < drawn.size() && zero + drawn[next].at <= Loop::now_ns()) {
        EngineAsk ask{.path = "/v1/completions", .body = drawn[next++].body};
        auto call = chat.begin(ask);
        if (!call) continue;
        open.insert(*call);
        (*call)->completion.ended = [&, one = call->get()](std::optional<Denial>) {
          loop->post([&, one] {
            const auto found = std::find_if(open.begin(), open.end(),
                                            [&](const auto& each) { return each.get() == one; });
            const auto kept = *found;
            open.erase(found);
            chat.release(kept);
          });
        };
        chat.start(**call);
      }
      if (next < drawn.size()) sender.at(zero + drawn[next].at);
    });
    sender.at(zero);
    while (next < drawn.size() || !open.empty()) loop->run_until(Loop::now_ns() + 100'000'000);

    const TokenCounters& counted = chat.counters();
    state.counters["goodput_rps"] = static_cast<double>(counted.fates.in_slo) / seconds;
    state.counters["in_slo"] =
        static_cast<double>(counted.fates.in_slo) / static_cast<double>(counted.arrived);
    state.counters["refused"] = static_cast<double>(counted.fates.late);
    state.counters["cached"] =
        static_cast<double>(counted.used.cached) / static_cast<double>(counted.used.prompt);
    state.counters["ttft_mean_ms"] =
        counted.ttft.sum() / static_cast<double>(counted.ttft.count()) * 1e3;
    state.counters["tpot_mean_ms"] =
        counted.tpot.sum() / static_cast<double>(counted.tpot.count()) * 1e3;
  }
}

void add(const char* name, Routing routing, bool shed) {
  auto* one = benchmark::RegisterBenchmark(
      name, [=](benchmark::State& state) { route(state, routing, shed); });
  if (!running().empty()) one->DenseRange(3, 11);
  one->Arg(12)->Arg(16)->Arg(20)->Arg(24)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();
}

const bool added = [] {
  add("tokens", Routing::tokens, true);
  add("tokens_nobody_refused", Routing::tokens, false);
  add("least_requests", Routing::least_requests, false);
  add("round_robin", Routing::round_robin, false);
  return true;
}();

}  // namespace
