// The hop to a worker and back, and what a worker adds to ONNX Runtime.
//   Hop/B/KIB      RUN to DONE with a worker process that only touches its inputs; goals: <= 4 us
//                  of CPU a batch on each side for any size, p50 <= 10 us on an idle machine
//   Mlp/direct/B   the engine called directly; Mlp/worker/B the same through the link
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "serve/onnx/models.h"
#include "serve/worker/null_engine.h"
#include "serve/worker/ort_engine.h"
#include "serve/worker/testing/fake_gateway.h"
#include "serve/worker/warm_up.h"
#include "serve/worker/worker_loop.h"

namespace partita::serve {
namespace {

constexpr double kMicro = 1e-6;

double cpu_of(int who) {
  rusage used{};
  ::getrusage(who, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + (static_cast<double>(t.tv_usec) * kMicro);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// A worker process with the engine that `make` gives, and the gateway's side of it.
class Pair {
 public:
  template <class Make>
  Pair(const Make& make, int slots) : gateway(path_) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const EnginePointer engine = make();
      LoopOptions options;
      options.seat = {.link = path_, .place = "", .service = "m"};
      ::_exit(engine && run_worker(*engine, options) ? 0 : 1);
    }
    CHECK(gateway.accept() && gateway.greet(static_cast<std::uint32_t>(slots)));
  }
  // CPU seconds of the worker, all in all.
  double end() {
    gateway.send(Drain{});
    while (gateway.next()) continue;
    const double before = cpu_of(RUSAGE_CHILDREN);
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove(path_ + ".lock");
    return cpu_of(RUSAGE_CHILDREN) - before;
  }

 private:
  std::string path_ = "/tmp/worker_bench_" + std::to_string(::getpid());

 public:
  FakeGateway gateway;

 private:
  pid_t pid_ = 0;
};

// One batch there and back; nanoseconds.
std::int64_t round_trip(FakeGateway& gateway, Run& run) {
  const std::int64_t begin = steady_ns();
  ++run.batch;
  gateway.send(run);
  CHECK(gateway.expect<Done>());
  return steady_ns() - begin;
}

void report(benchmark::State& state, std::vector<std::int64_t>& times, double own_cpu) {
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return static_cast<double>(
               times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))]) /
           1e3;
  };
  state.counters["p50_us"] = at(0.5);
  state.counters["p99_us"] = at(0.99);
  state.counters["gateway_cpu_us"] = own_cpu * 1e6 / static_cast<double>(times.size());
}

Run run_of(std::int64_t items) {
  Run run{.slots = {}};
  for (std::int64_t i = 0; i < items; ++i) run.slots.push_back(static_cast<std::uint32_t>(i));
  return run;
}

void hop(benchmark::State& state) {
  const auto items = static_cast<int>(state.range(0));
  const std::int64_t bytes = state.range(1) << 10;
  Pair pair(
      [&] {
        return null_engine({.name = "m",
                            .platform = "null",
                            .inputs = {{.name = "x", .type = DataType::uint8, .shape = {bytes}}},
                            .outputs = {{.name = "y", .type = DataType::uint8, .shape = {4000}}},
                            .max_batch = items},
                           {});
      },
      items);
  Run run = run_of(items);
  for (int i = 0; i < 100; ++i) round_trip(pair.gateway, run);
  std::vector<std::int64_t> times;
  const double before = cpu_of(RUSAGE_SELF);
  for (auto _ : state) times.push_back(round_trip(pair.gateway, run));
  report(state, times, cpu_of(RUSAGE_SELF) - before);
  // The worker's CPU holds its start and its warm-up, too: little beside many batches.
  state.counters["worker_cpu_us"] = pair.end() * 1e6 / static_cast<double>(times.size());
}
BENCHMARK(hop)
    ->Name("Hop")
    ->ArgsProduct({{1, 8, 32}, {1, 588}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime()
    ->MinTime(1.0);

// The demo's MLP; nothing where there is no ONNX Runtime.
EnginePointer mlp_engine(int max_batch) {
  const char* named = std::getenv("PARTITA_ONNXRUNTIME");
  const auto library =
      OrtLibrary::load({named != nullptr ? named : "build/onnxruntime/libonnxruntime.so.1"});
  if (!library) return nullptr;
  const std::string path = "/tmp/worker_bench_" + std::to_string(::getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << onnx_mlp({}, 1).bytes();
  auto engine = ort_engine(
      *library, {.model_file = path, .name = "mlp", .max_batch = max_batch, .shapes = {}});
  std::filesystem::remove(path);
  return engine ? *std::move(engine) : nullptr;
}

void mlp_direct(benchmark::State& state) {
  const auto items = static_cast<std::size_t>(state.range(0));
  const EnginePointer engine = mlp_engine(static_cast<int>(items));
  if (!engine) return state.SkipWithError("no ONNX Runtime: tools/get_onnxruntime");
  const std::size_t bytes = slot_layout(engine->spec()).bytes;
  std::vector<char> memory(items * bytes);
  std::vector<char*> slots;
  for (std::size_t i = 0; i < items; ++i) slots.push_back(memory.data() + (i * bytes));
  std::vector<std::int64_t> times;
  const double before = cpu_of(RUSAGE_SELF);
  for (auto _ : state) {
    const std::int64_t begin = steady_ns();
    CHECK(engine->run(slots));
    times.push_back(steady_ns() - begin);
  }
  report(state, times, cpu_of(RUSAGE_SELF) - before);
}
BENCHMARK(mlp_direct)->Name("Mlp/direct")->Arg(1)->Arg(8)->Arg(32)->UseRealTime();

void mlp_worker(benchmark::State& state) {
  const auto items = static_cast<int>(state.range(0));
  if (!mlp_engine(1)) return state.SkipWithError("no ONNX Runtime: tools/get_onnxruntime");
  Pair pair([&] { return mlp_engine(items); }, items);
  Run run = run_of(items);
  std::vector<std::int64_t> times;
  const double before = cpu_of(RUSAGE_SELF);
  for (auto _ : state) times.push_back(round_trip(pair.gateway, run));
  report(state, times, cpu_of(RUSAGE_SELF) - before);
  pair.end();
}
BENCHMARK(mlp_worker)->Name("Mlp/worker")->Arg(1)->Arg(8)->Arg(32)->UseRealTime();

}  // namespace
}  // namespace partita::serve
