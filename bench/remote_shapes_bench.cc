// Hot inferences that GPUless published, played through the client against a device whose kernels
// are waits of the native run's length: what the way adds, with round trips of 0, 25 and 100 us
// emulated ("slow:" on both sides; on top of the real way through the rings). Goals: <= 3 % at 25
// us and <= 10 % at 100 us, yolop <= 25 % at 25 us. Cold: blocking round trips and their bytes.
// Planned: the same inferences, of empty kernels on the cores, with and without a plan of one lane.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/check.h"
#include "base/median.h"
#include "base/source_text.h"
#include "server/cpu/cpu_backend.h"
#include "tests/remote/call_shape.h"
#include "tests/remote/timed_server.h"

namespace partita::remote::shapes {
namespace {

CallShape shape_named(const std::string& program) {
  const auto shapes = parse_shapes(source_text("data/published/gpuless/calls.csv"),
                                   source_text("data/published/gpuless/times.csv"));
  CHECK(shapes);
  const auto found = std::ranges::find(*shapes, program, &CallShape::program);
  CHECK(found != shapes->end());
  return *found;
}

std::unique_ptr<TimedServer> served(const std::string& way, const TimedServer::Open& open = {}) {
  static int count = 0;
  const std::string name = "partita-shapes-" + std::to_string(::getpid()) + "-";
  const auto path = std::filesystem::temp_directory_path() / (name + std::to_string(++count));
  auto started = TimedServer::start(way + path.string(), open);
  CHECK(started);
  return *std::move(started);
}

struct ShapeRun {
  ShapeRun(std::unique_ptr<TimedServer> started, const CallShape& shape, double scale)
      : server(std::move(started)) {
    ::setenv("PARTITA_REMOTE", server->address().c_str(), 1);
    session = std::make_unique<client::Session>();
    player = std::make_unique<ShapePlayer>(*session, shape, scale);
  }
  ~ShapeRun() { session->leave(); }
  std::unique_ptr<TimedServer> server;
  std::unique_ptr<client::Session> session;
  std::unique_ptr<ShapePlayer> player;
};

void hot(benchmark::State& state, const std::string& program) {
  const CallShape shape = shape_named(program);
  const auto round_trip = static_cast<double>(state.range(0));
  ShapeRun run(served("slow:" + std::to_string(round_trip / 2) + ":unix:"), shape, 1e-3);
  CHECK(run.player->cold() == client::kOk);
  const std::chrono::nanoseconds native(static_cast<long>(shape.hot_ms * 1e6));
  std::vector<double> times;
  const std::uint64_t before = round_trips(*run.session);
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run.player->hot(native) == client::kOk);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
  }
  std::ranges::sort(times);
  state.counters["native_ms"] = shape.hot_ms;
  state.counters["median_ms"] = times[times.size() / 2];
  state.counters["added_%"] = 100 * (times[times.size() / 2] / shape.hot_ms - 1);
  state.counters["least_added_%"] = 100 * (times[0] / shape.hot_ms - 1);
  state.counters["round_trips"] =
      static_cast<double>(round_trips(*run.session) - before) / static_cast<double>(times.size());
}
#define PARTITA_HOT(name, program) \
  BENCHMARK_CAPTURE(hot, name, program)->Arg(0)->Arg(25)->Arg(100)->Iterations(30)
PARTITA_HOT(resnet50, "resnet50");
PARTITA_HOT(alexnet, "alexnet");
PARTITA_HOT(vgg19, "vgg19");
PARTITA_HOT(midas, "midas");
PARTITA_HOT(bert, "bert-squad");
PARTITA_HOT(yolop, "yolop");

// All bytes, once.
void cold(benchmark::State& state, const std::string& program) {
  const CallShape shape = shape_named(program);
  for (auto _ : state) {
    ShapeRun run(served("unix:"), shape, 1);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run.player->cold() == client::kOk);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    state.counters["ms"] = took.count();
    state.counters["round_trips"] = static_cast<double>(round_trips(*run.session));
    state.counters["gpuless_waits"] = static_cast<double>(shape.waits);
  }
}
BENCHMARK_CAPTURE(cold, resnet50, "resnet50")->Iterations(1);
BENCHMARK_CAPTURE(cold, yolop, "yolop")->Iterations(1);
BENCHMARK_CAPTURE(cold, midas, "midas")->Iterations(1);
BENCHMARK_CAPTURE(cold, bert, "bert-squad")->Iterations(1);

// All kernels of an inference, on one lane of all units.
struct OneLane final : cpu::Tenant {
  OneLane(const CallShape& shape, int units) {
    for (std::uint64_t i = 0; i < shape.launches; ++i)
      plan->kernels.push_back("kernel_" + std::to_string(i % shape.kernels));
    plan->masks.assign(plan->kernels.size() + 1, hw::UnitMask((1u << units) - 1));
  }
  std::shared_ptr<const cpu::Placing> placing() override { return plan; }
  std::shared_ptr<cpu::Placing> plan = std::make_shared<cpu::Placing>();
};

// One inference with the plan beside one without, whichever goes first by turns: a machine's speed
// changes from second to second by more than a plan costs. added_%: the median of the pairs; 95 %
// of such medians lie from low_% to high_%.
void planned(benchmark::State& state, const std::string& program) {
  static constexpr int kUnits = 1;
  const CallShape shape = shape_named(program);
  std::array<std::unique_ptr<TimedServer>, 2> servers;
  for (const bool plan : {false, true})
    servers[plan] =
        served("unix:", [&shape, plan]() -> Result<std::unique_ptr<server::DeviceBackend>> {
          cpu::CpuOptions options{.units = kUnits};
          if (plan) options.tenant = std::make_shared<OneLane>(shape, kUnits);
          return TRY(cpu::CpuBackend::open(options));
        });
  std::array<std::optional<ShapeRun>, 2> runs;
  for (const bool plan : {false, true})
    CHECK(runs[plan].emplace(std::move(servers[plan]), shape, 1e-3).player->cold() == client::kOk);
  std::array<std::vector<double>, 2> times;
  const auto hot = [&](bool plan) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(runs[plan]->player->hot(std::chrono::nanoseconds(0)) == client::kOk);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times[plan].push_back(took.count());
  };
  bool first = false;
  for (auto _ : state) {
    hot(first);
    hot(first = !first);
  }
  std::vector<double> added;
  for (std::size_t i = 0; i < times[0].size(); ++i)
    added.push_back(100 * (times[1][i] / times[0][i] - 1));
  std::ranges::sort(added);
  const auto pairs = static_cast<double>(added.size());
  const auto at = [&](double rank) {
    return added[static_cast<std::size_t>(std::clamp(rank, 0.0, pairs - 1))];
  };
  state.counters["without_ms"] = median(times[0]);
  state.counters["with_ms"] = median(times[1]);
  state.counters["added_%"] = at(pairs / 2);
  state.counters["low_%"] = at(pairs / 2 - 0.98 * std::sqrt(pairs));
  state.counters["high_%"] = at(pairs / 2 + 0.98 * std::sqrt(pairs));
}
#define PARTITA_PLANNED(name, program, pairs) \
  BENCHMARK_CAPTURE(planned, name, program)   \
      ->Iterations(pairs)                     \
      ->UseRealTime()                         \
      ->Unit(benchmark::kMillisecond)
PARTITA_PLANNED(resnet50, "resnet50", 1000);
PARTITA_PLANNED(alexnet, "alexnet", 4000);
PARTITA_PLANNED(bert, "bert-squad", 400);
PARTITA_PLANNED(yolop, "yolop", 300);

// A synchronisation of the whole stack, and an asynchronous launch as the program sees it.
void whole_stack(benchmark::State& state) {
  ShapeRun run(served("unix:"), shape_named("resnet50"), 1e-3);
  CHECK(run.player->cold() == client::kOk);
  std::vector<double> syncs;
  std::array<std::byte, 4> result{};
  const auto block = run.session->memory.allocate(256);
  CHECK(block);
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run.session->memory.copy_out(0, result.data(), *block, result.size(), false) ==
          client::kOk);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    syncs.push_back(took.count());
  }
  std::ranges::sort(syncs);
  state.counters["sync_us"] = syncs[syncs.size() / 2];
}
BENCHMARK(whole_stack)->Iterations(3000);

}  // namespace
}  // namespace partita::remote::shapes
