// The change of a node or a whole fleet as one pure function: matching of GPUs, comparison, order
// of the steps, predictions; on 1,000 full GPUs with 7,000 instances. What is wanted next is (0)
// the same layout in another order of GPUs, (1) one GPU in ten altered, (2) every service moved to
// other places, so that hardly anything may stay, (3) nothing in common and not one spare slice,
// (4) per GPU a
// service that must give up its only instance before it can have the next, a tenth of the GPUs
// empty: 900 stand-ins.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "act/apply.h"
#include "act/change.h"
#include "base/check.h"
#include "base/rng.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"

namespace partita {
namespace {

using actuate::Wanted;

const hw::GpuModel& model() { return **hw::builtin_catalogue().get("A100-80GB"); }

// A full GPU: seven instances of one compute slice.
actuate::WantedGpu full_gpu(int services, Rng& rng) {
  actuate::WantedGpu gpu{"A100-80GB", "", {}};
  for (int start = 0; start < 7; ++start) {
    const auto service = rng.below(static_cast<std::uint64_t>(services));
    gpu.instances.push_back({"1g.10gb", start, {"s" + std::to_string(service), 8, 1, 100}});
  }
  return gpu;
}

Wanted full_fleet(int gpus, int services, std::uint64_t seed) {
  Rng rng(seed);
  Wanted wanted;
  for (int g = 0; g < gpus; ++g) wanted.gpus.push_back(full_gpu(services, rng));
  return wanted;
}

// Per GPU two services with one instance each; every tenth GPU is empty.
Wanted pairs(int gpus, const std::string& first) {
  Wanted wanted;
  for (int g = 0; g < gpus; ++g) {
    actuate::WantedGpu& gpu = wanted.gpus.emplace_back();
    gpu.model = "A100-80GB";
    if (g % 10 == 0) continue;
    gpu.instances = {{first, 0, {"a" + std::to_string(g), 8, 1, 100}},
                     {"3g.40gb", 4, {"b" + std::to_string(g), 8, 1, 100}}};
  }
  return wanted;
}

struct Running {
  device::NodeState state;
  actuate::Assignment assignment;
};

Running running(const Wanted& wanted) {
  Running now;
  for (const actuate::WantedGpu& gpu : wanted.gpus) {
    device::GpuState state;
    state.index = static_cast<int>(now.state.gpus.size());
    state.uuid = "GPU-" + std::to_string(state.index);
    state.model = gpu.model;
    state.mig_capable = state.mig_enabled = state.mig_pending = true;
    for (const actuate::WantedInstance& one : gpu.instances) {
      const std::string uuid =
          "MIG-" + std::to_string(state.index) + "-" + std::to_string(one.start);
      const hw::MigProfile& shape =
          model().profiles[static_cast<std::size_t>(model().profile_index(one.profile))];
      device::Instance instance;
      instance.profile = one.profile;
      instance.gpcs = shape.gpcs;
      instance.start = one.start;
      instance.size = shape.size;
      instance.gi_id = 13 - one.start;
      instance.compute.push_back({0, shape.gpcs, uuid});
      state.instances.push_back(instance);
      actuate::AssignedSegment segment;
      segment.device = uuid;
      segment.service = one.segment.service;
      segment.batch = one.segment.batch;
      segment.processes = one.segment.processes;
      segment.throughput_rps = one.segment.throughput_rps;
      now.assignment.segments.push_back(segment);
    }
    now.state.gpus.push_back(state);
  }
  return now;
}

Wanted next_wanted(int kind, Wanted wanted, int services, Rng& rng) {
  for (std::size_t g = wanted.gpus.size(); g > 1; --g) {
    std::swap(wanted.gpus[g - 1], wanted.gpus[rng.below(g)]);
  }
  if (kind == 0) return wanted;
  if (kind == 2) return full_fleet(static_cast<int>(wanted.gpus.size()), services, 77);
  for (std::size_t g = 0; g < wanted.gpus.size(); ++g) {
    if (kind == 1 && g % 10 != 0) continue;
    actuate::WantedGpu& gpu = wanted.gpus[g];
    const std::vector<actuate::WantedInstance> old = gpu.instances;
    gpu.instances = {{"4g.40gb", 0, old[0].segment}, {"3g.40gb", 4, old[1].segment}};
  }
  return wanted;
}

void change_of_a_fleet(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0)), services = gpus / 5;
  Rng rng(7);
  const int kind = static_cast<int>(state.range(1));
  const Wanted from = kind == 4 ? pairs(gpus, "3g.40gb") : full_fleet(gpus, services, 1);
  const Running now = running(from);
  const Wanted to = kind == 4 ? pairs(gpus, "4g.40gb") : next_wanted(kind, from, services, rng);
  std::size_t steps = 0, kept = 0;
  for (auto _ : state) {
    const auto change =
        actuate::plan_change(now.state, now.assignment, to, hw::builtin_catalogue());
    CHECK(change.has_value());
    steps = change->steps.size();
    kept = change->keep.size();
  }
  state.counters["steps"] = static_cast<double>(steps);
  state.counters["kept"] = static_cast<double>(kept);
}
BENCHMARK(change_of_a_fleet)
    ->ArgsProduct({{1000}, {0, 1, 2, 3, 4}})
    ->ArgNames({"gpus", "change"})
    ->Unit(benchmark::kMillisecond);

// What apply itself costs per step -- journal and assignment with their fsync on a real disk,
// reading back, planning -- on a driver that answers at once: 8 full GPUs change from 7 instances
// to 2 each and back.
void apply_overhead(benchmark::State& state) {
  std::string folder = std::filesystem::temp_directory_path() / "partita-bench-XXXXXX";
  CHECK(::mkdtemp(folder.data()) != nullptr);
  RealFiles files;
  RealClock clock;
  const auto machine =
      drivers::sim::own_machine(drivers::sim::Machine({{&model(), 8, true}}, "bench"), clock, 0);
  drivers::sim::SimDriver driver(*machine);
  const actuate::Doors doors{driver, files, clock, hw::builtin_catalogue(), folder};
  Rng rng(3);
  const Wanted many = full_fleet(8, 10, 1), few = next_wanted(3, many, 10, rng);
  std::size_t steps = 0;
  bool odd = false;
  for (auto _ : state) {
    const auto report =
        actuate::apply(doors, (odd = !odd) ? many : few, {.min_available = 0}, [](const auto&) {});
    CHECK(report.has_value());
    steps += report->change.steps.size();
  }
  state.counters["s_per_step"] = benchmark::Counter(
      static_cast<double>(steps), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["steps"] =
      benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kAvgIterations);
  std::filesystem::remove_all(folder);
}
BENCHMARK(apply_overhead)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace partita
