// What a lease costs above the driver's calls: asked for and returned, log and locks in TMPDIR, a
// simulated node of eight GPUs whose instances come and go at once, with so many leases that stand
// already. Beside it what one durable append to a file there takes, in turns with
// the asks, so on the same disk at the same time.
#include <benchmark/benchmark.h>

#include <chrono>
#include <filesystem>

#include "act/lease/leases.h"
#include "base/check.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"

namespace partita {
namespace {

using Steady = std::chrono::steady_clock;

// Sums up what its calls take.
class TimedDriver final : public device::NodeDriver {
 public:
  explicit TimedDriver(drivers::sim::SharedMachine& machine) : sim_(machine) {}
  double seconds = 0;

  Result<device::DriverInfo> info() override {
    return timed([&] { return sim_.info(); });
  }
  Result<device::GpuState> read(int gpu) override {
    return timed([&] { return sim_.read(gpu); });
  }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return timed([&] { return sim_.profiles(gpu); });
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool on) override {
    return sim_.set_mig_mode(gpu, on);
  }
  Result<int> create_instance(int gpu, const device::Placement& place) override {
    return timed([&] { return sim_.create_instance(gpu, place); });
  }
  Result<void> destroy_instance(int gpu, int gi) override {
    return timed([&] { return sim_.destroy_instance(gpu, gi); });
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi) override {
    return timed([&] { return sim_.create_compute(gpu, gi); });
  }
  Result<void> destroy_compute(int gpu, int gi, int ci) override {
    return timed([&] { return sim_.destroy_compute(gpu, gi, ci); });
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return sim_.telemetry(gpu); }
  Result<device::PowerState> power_settings(int gpu) override { return sim_.power_settings(gpu); }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return sim_.set_power_settings(gpu, settings);
  }

 private:
  template <class Call>
  auto timed(const Call& call) -> decltype(call()) {
    const auto begin = Steady::now();
    auto result = call();
    seconds += std::chrono::duration<double>(Steady::now() - begin).count();
    return result;
  }
  drivers::sim::SimDriver sim_;
};

void lease_and_return(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path() / "partita-lease-bench";
  std::filesystem::create_directories(folder);
  const std::string log = folder / "node.leases";
  std::filesystem::remove(log);
  RealClock clock;
  RealFiles files;
  RealProcesses processes;
  auto machine = drivers::sim::described_machine(
      "machine.yaml", "gpus: [{model: A100-80GB, count: 8, mig: true}]\nspeed: 0\n", clock,
      hw::builtin_catalogue());
  CHECK(machine);
  TimedDriver driver(**machine);
  const auto ask = [&](const lease::Ask& what) {
    auto leases = lease::Leases::open(
        {driver, files, processes, hw::builtin_catalogue(), [] { return std::int64_t{1}; }}, log);
    CHECK(leases);
    const auto outcome = leases->ask(what);
    CHECK(outcome && !outcome->refused);
  };
  for (long n = 0; n < state.range(0); ++n)
    ask(lease::Take{.owner = "job:" + std::to_string(n), .profile = "1g.10gb"});
  double took = 0, driving = 0, most = 0, syncing = 0;
  const std::string record(300, '.');
  for (auto _ : state) {
    const auto before = Steady::now();
    CHECK(files.append(folder / "bare", record));
    syncing += std::chrono::duration<double>(Steady::now() - before).count();
    for (const lease::Ask& what : {lease::Ask{lease::Take{.owner = "me", .profile = "2g.20gb"}},
                                   lease::Ask{lease::Return{"me"}}}) {
      driver.seconds = 0;
      const auto begin = Steady::now();
      ask(what);
      const double all = std::chrono::duration<double>(Steady::now() - begin).count();
      took += all;
      driving += driver.seconds;
      most = std::max(most, all - driver.seconds);
    }
  }
  const double asks = 2.0 * static_cast<double>(state.iterations());
  state.counters["above_driver_ms"] = 1e3 * (took - driving) / asks;
  state.counters["most_above_ms"] = 1e3 * most;
  state.counters["driver_ms"] = 1e3 * driving / asks;
  state.counters["bare_append_ms"] = 2e3 * syncing / asks;
  std::filesystem::remove_all(folder);
}
BENCHMARK(lease_and_return)->Arg(0)->Arg(10)->Arg(45)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita
