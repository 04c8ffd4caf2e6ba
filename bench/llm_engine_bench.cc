// Simulated tokens per second of CPU: a closed loop of a chat shape, one of long prompts, and one
// whose cache is too small.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "llm/engine/engine.h"

namespace partita::llm {
namespace {

constexpr StepCost kCost{.step = 5,
                         .sequence = 0.05,
                         .root_sequences = 0.2,
                         .cached_token = 1e-5,
                         .prompt_token = 0.03,
                         .prompt_context = 1e-7};

void engine(benchmark::State& state) {
  const int in = static_cast<int>(state.range(0)), out = static_cast<int>(state.range(1));
  const int in_flight = static_cast<int>(state.range(2));
  const EngineSpec spec{
      .cost = kCost, .step_tokens = 2048, .sequences = 512, .blocks = state.range(3)};
  Rng rng(1);
  std::vector<Request> requests(static_cast<std::size_t>(10 * in_flight));
  const auto about = [&](int tokens) {
    return 1 + static_cast<int>((0.8 + 0.2 * rng.uniform()) * tokens);
  };
  for (Request& request : requests) request = {.in = about(in), .out = about(out)};
  double tokens_out = 0, preemptions = 0;
  for (auto _ : state) {
    const auto run = simulate(spec, requests, {.in_flight = in_flight});
    CHECK(run);
    tokens_out += static_cast<double>(run->tokens_out);
    preemptions += static_cast<double>(run->preemptions);
  }
  state.counters["tokens/s"] = benchmark::Counter(tokens_out, benchmark::Counter::kIsRate);
  state.counters["preempted"] = benchmark::Counter(preemptions, benchmark::Counter::kAvgIterations);
}
BENCHMARK(engine)
    ->Args({1024, 1024, 4, 1'000'000})
    ->Args({1024, 1024, 64, 1'000'000})
    ->Args({1024, 256, 64, 1'000'000})
    ->Args({8192, 256, 64, 1'000'000})
    ->Args({1024, 1024, 64, 4'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita::llm
