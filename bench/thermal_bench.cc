// What a thermal answer costs: steady states of 30 blocks, samples of a reduced model, questions
// about the steady response. CPU time of one thread.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <span>

#include "base/source_text.h"
#include "heat/flp.h"
#include "heat/ptrace.h"
#include "heat/rom.h"
#include "heat/steady.h"

namespace partita::thermal {
namespace {

// 30 blocks on 16 x 16 mm.
Chip thirty_blocks() {
  Floorplan plan;
  plan.width = plan.height = 0.016;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 6; ++j)
      plan.blocks.push_back(
          {fmt::format("b{}{}", i, j), 0.016 / 6, 0.016 / 5, j * 0.016 / 6, i * 0.016 / 5});
  return one_die(PackageConfig{}, plan);
}

std::vector<double> some_watts(std::size_t blocks) {
  std::vector<double> watts;
  for (std::size_t i = 0; i < blocks; ++i) watts.push_back(1 + static_cast<double>(i % 4) / 4);
  return watts;
}

// Network, factors and solution: everything but reading files.
void steady(benchmark::State& state) {
  const Chip chip = thirty_blocks();
  const NetworkOptions options{static_cast<int>(state.range(0)), static_cast<int>(state.range(1))};
  const std::vector<double> watts = some_watts(30);
  double balance = 0;
  for (auto _ : state) {
    const Result<Network> network = make_network(chip, options);
    const SteadyState answer = steady_state(*network, watts);
    balance = answer.removed / answer.power - 1;
    benchmark::DoNotOptimize(answer.solution.kelvin.data());
  }
  state.counters["balance"] = balance;
}
BENCHMARK(steady)
    ->Args({64, 64})
    ->Args({128, 128})
    ->Args({234, 252})
    ->Args({256, 256})
    ->Args({512, 512})
    ->Unit(benchmark::kMillisecond);

Network small_gpu(int side) {
  const Result<Floorplan> plan = read_flp("gp107.flp", source_text("data/thermal/gp107.flp"));
  PackageConfig config;
  config.s_spreader = 0.026;
  return *make_network(one_die(config, *plan), {side, side, false});
}

void reduced_set_up(benchmark::State& state) {
  const Network network =
      state.range(0) == 30 ? *make_network(thirty_blocks(), {64, 64, false}) : small_gpu(64);
  int states = 0;
  for (auto _ : state) states = reduce(network, Seconds{0.01})->states();
  state.counters["states"] = states;
}
BENCHMARK(reduced_set_up)->Arg(30)->Arg(65)->Unit(benchmark::kMillisecond);

// A sample of 10 ms, temperatures of all blocks included.
void reduced_sample(benchmark::State& state) {
  const Network network =
      state.range(0) == 30 ? *make_network(thirty_blocks(), {64, 64, false}) : small_gpu(64);
  Result<ReducedModel> model = reduce(network, Seconds{0.01});
  const std::vector<double> watts = some_watts(network.block_names().size());
  for (auto _ : state) {
    model->step(watts);
    benchmark::DoNotOptimize(model->block_temperatures().data());
  }
  state.counters["states"] = model->states();
}
BENCHMARK(reduced_sample)->Arg(30)->Arg(65)->Unit(benchmark::kMicrosecond);

// The steady temperatures of all blocks for one vector of powers.
void block_response(benchmark::State& state) {
  Result<ReducedModel> model = reduce(small_gpu(16), Seconds{0.01});
  const std::vector<double> watts = some_watts(model->block_names().size());
  for (auto _ : state) {
    double hottest = 0;
    for (const std::vector<double>& row : model->steady_response()) {
      double rise = 0;
      for (std::size_t j = 0; j < watts.size(); ++j) rise += row[j] * watts[j];
      hottest = std::max(hottest, rise);
    }
    benchmark::DoNotOptimize(hottest);
  }
}
BENCHMARK(block_response)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace partita::thermal
