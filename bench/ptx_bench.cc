// The PTX executor on one core: thread-instructions per second (active lanes only, CPU time) of
// kernels of several kinds, each checked against C++; what the checks cost; a launch's overhead.
// Counter `ti` is thread-instructions per second.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/source_text.h"
#include "ptx/machine.h"

namespace partita::ptx {
namespace {

constexpr Checks kNone{}, kUninitialised{.uninitialised = true}, kRaces{.races = true};
constexpr Checks kChecks[] = {kNone, kUninitialised, kRaces};
constexpr const char* kCheckNames[] = {"bounds", "bounds, uninitialised", "bounds, races"};

class Bench {
 public:
  Bench() {
    machine_ = std::move(*Machine::open(std::uint64_t{1} << 30));
    module_ = *machine_->load(source_text("bench/ptx/kernels.ptx"), "kernels.ptx");
  }
  template <class T>
  std::uint64_t upload(const std::vector<T>& from) {
    // One byte more, so that the shadow has to know what was written and what was not.
    const std::uint64_t at = *machine_->allocate(from.size() * sizeof(T) + 1);
    std::memcpy(machine_->writable(at, from.size() * sizeof(T))->data(), from.data(),
                from.size() * sizeof(T));
    return at;
  }
  template <class T>
  std::vector<T> download(std::uint64_t at, std::size_t count) {
    std::vector<T> to(count);
    std::memcpy(to.data(), machine_->readable(at, count * sizeof(T))->data(), count * sizeof(T));
    return to;
  }
  template <class T>
  void add(T value) {
    parameters_.resize((parameters_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    parameters_.resize(parameters_.size() + sizeof(T));
    std::memcpy(&parameters_[parameters_.size() - sizeof(T)], &value, sizeof(T));
  }
  Launch launch(const char* kernel, Extent grid, Extent block) {
    return {.kernel = *machine_->find_kernel(module_, kernel),
            .grid = grid,
            .block = block,
            .parameters = parameters_};
  }
  void measure(benchmark::State& state, Launch launch) {
    launch.checks = kChecks[state.range(0)];
    std::uint64_t instructions = 0;
    for (auto _ : state) {
      const auto run = *run_here(*machine_, launch);
      CHECK(run->faults().empty());
      instructions += run->counts().thread_instructions;
    }
    state.counters["ti"] =
        benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
    state.SetLabel(kCheckNames[state.range(0)]);
  }
  Machine& machine() { return *machine_; }

 private:
  std::unique_ptr<Machine> machine_;
  ModuleId module_{};
  std::vector<std::byte> parameters_;
};

std::vector<float> ramp(std::size_t count, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = step * static_cast<float>(i % 1021);
  return values;
}

void vadd(benchmark::State& state) {
  constexpr std::uint32_t n = 1 << 16;
  Bench bench;
  const auto a = ramp(n, 0.25F), b = ramp(n, 0.5F);
  const std::uint64_t c = bench.upload(std::vector<float>(n));
  bench.add(bench.upload(a));
  bench.add(bench.upload(b));
  bench.add(c);
  bench.add(n);
  bench.measure(state, bench.launch("vadd", {n / 256}, {256}));
  const auto got = bench.download<float>(c, n);
  for (std::size_t i = 0; i < n; ++i) CHECK(got[i] == a[i] + b[i]);
}

void saxpy(benchmark::State& state) {
  constexpr std::uint32_t n = 1 << 20;
  Bench bench;
  const auto x = ramp(n, 0.25F);
  const std::uint64_t y = bench.upload(std::vector<float>(n, 1.0F));
  bench.add(0.0F);
  bench.add(bench.upload(x));
  bench.add(y);
  bench.add(n);
  bench.measure(state, bench.launch("saxpy", {64}, {256}));
  for (const float value : bench.download<float>(y, n)) CHECK(value == 1.0F);
}

void matmul(benchmark::State& state) {
  constexpr std::uint32_t n = 256;
  Bench bench;
  const auto a = ramp(n * n, 0.001F), b = ramp(n * n, 0.002F);
  const std::uint64_t c = bench.upload(std::vector<float>(n * n));
  bench.add(bench.upload(a));
  bench.add(bench.upload(b));
  bench.add(c);
  bench.add(n);
  bench.measure(state, bench.launch("matmul", {n / 16, n / 16}, {16, 16}));
  const auto got = bench.download<float>(c, n * n);
  for (std::size_t row = 0; row < n; row += 17)
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum = std::fma(a[row * n + k], b[k * n + column], sum);
      CHECK(got[row * n + column] == sum);
    }
}

void reduce(benchmark::State& state) {
  constexpr std::uint32_t n = 1 << 20;
  Bench bench;
  const std::vector<float> in(n, 0.5F);  // sums of it are exact in any order
  const std::uint64_t out = bench.upload(std::vector<float>(1));
  bench.add(bench.upload(in));
  bench.add(out);
  bench.add(n);
  const Launch launch = bench.launch("reduce", {256}, {256});
  CHECK((*run_here(bench.machine(), launch))->faults().empty());
  CHECK(bench.download<float>(out, 1)[0] == 0.5F * n);
  bench.measure(state, launch);
}

void mandelbrot(benchmark::State& state) {
  constexpr std::int32_t width = 256, height = 64, most = 256;
  Bench bench;
  const std::uint64_t out = bench.upload(std::vector<std::int32_t>(width * height));
  bench.add(out);
  bench.add(width);
  bench.add(height);
  bench.add(most);
  bench.measure(state, bench.launch("mandelbrot", {1, height}, {256}));
  // Points of the set, and points outside.
  const auto got = bench.download<std::int32_t>(out, width * height);
  const auto at = [&](double re, double im) {
    return got[static_cast<std::size_t>((im + 1) / 2 * height) * width +
               static_cast<std::size_t>((re + 2) / 3 * width)];
  };
  CHECK(at(-1, 0) == most && at(0, 0) == most && at(-1.95, 0.9) < 4 && at(0.8, 0.8) < 4);
}

void stencil(benchmark::State& state) {
  constexpr std::uint32_t n = 1024;
  Bench bench;
  const auto in = ramp(n * n, 1.0F);
  const std::uint64_t out = bench.upload(std::vector<float>(n * n));
  bench.add(bench.upload(in));
  bench.add(out);
  bench.add(n);
  bench.add(n);
  bench.measure(state, bench.launch("stencil", {n / 256, n}, {256}));
  const auto got = bench.download<float>(out, n * n);
  for (std::size_t y = 1; y + 1 < n; y += 31)
    for (std::size_t x = 1; x + 1 < n; ++x) {
      const float* at = &in[y * n + x];
      const float sum = 0.5F * at[0] + 0.125F * (at[-1] + at[1] + *(at - n) + at[n]);
      CHECK(std::fabs(got[y * n + x] - sum) < 1e-3F);
    }
}

void chase(benchmark::State& state) {
  constexpr std::int32_t n = 1 << 14, steps = 64;
  Bench bench;
  std::vector<std::int32_t> next(n);
  for (std::int32_t i = 0; i < n; ++i)
    next[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * 40503ll + 12345) % n);
  const std::uint64_t out = bench.upload(std::vector<std::int32_t>(n));
  bench.add(bench.upload(next));
  bench.add(out);
  bench.add(steps);
  bench.add(n);
  bench.measure(state, bench.launch("chase", {n / 256}, {256}));
  const auto got = bench.download<std::int32_t>(out, n);
  for (std::int32_t i = 0; i < n; i += 7) {
    std::int32_t at = i;
    for (std::int32_t s = 0; s < steps; ++s) at = next[static_cast<std::size_t>(at)];
    CHECK(got[static_cast<std::size_t>(i)] == at);
  }
}

void nested(benchmark::State& state) {
  constexpr std::uint32_t n = 1 << 13;
  Bench bench;
  const std::uint64_t out = bench.upload(std::vector<std::uint32_t>(n));
  bench.add(out);
  bench.add(n);
  bench.measure(state, bench.launch("nested", {n / 256}, {256}));
  const auto got = bench.download<std::uint32_t>(out, n);
  for (std::uint32_t i = 0; i < n; i += 5) {
    std::uint32_t value = i * 2654435761u, sum = 0;
    const std::uint32_t outer = value >> 27;
    for (std::uint32_t a = 0; a < outer; ++a) {
      const std::uint32_t inner = (value >> (a & 15)) & 31;
      for (std::uint32_t b = 0; b < inner; ++b) {
        sum = sum * 5 + (b ^ value);
        if ((sum & 7) == 0) value = value * 1664525u + 1013904223u;
      }
    }
    CHECK(got[i] == sum);
  }
}

// Prepare and execute one warp of vadd: the time of a launch, its kernel decoded before.
void launch_of_one_warp(benchmark::State& state) {
  Bench bench;
  const std::uint64_t a = bench.upload(ramp(32, 1.0F));
  for (int i = 0; i < 3; ++i) bench.add(a);
  bench.add(std::uint32_t{32});
  const Launch launch = bench.launch("vadd", {1}, {32});
  for (auto _ : state) CHECK((*run_here(bench.machine(), launch))->faults().empty());
}

void parse_and_decode(benchmark::State& state) {
  const std::string text = source_text("bench/ptx/kernels.ptx");
  const auto machine = std::move(*Machine::open(std::uint64_t{1} << 20));
  for (auto _ : state) CHECK(machine->unload(*machine->load(text, "kernels.ptx")));
}

#define PARTITA_BENCH(NAME) BENCHMARK(NAME)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond)
PARTITA_BENCH(vadd);
PARTITA_BENCH(saxpy);
PARTITA_BENCH(matmul);
PARTITA_BENCH(reduce);
PARTITA_BENCH(mandelbrot);
PARTITA_BENCH(stencil);
PARTITA_BENCH(chase);
PARTITA_BENCH(nested);
BENCHMARK(launch_of_one_warp)->Unit(benchmark::kMicrosecond);
BENCHMARK(parse_and_decode)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace partita::ptx
