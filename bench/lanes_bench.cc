// Lanes on threads: what a batch and a launch cost, and many work-groups on random overlapping
// masks, where each thread asks itself whether it may run what it was given.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "base/rng.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "drivers/cpu_mask/dispatcher.h"
#include "lanes/phase_share.h"
#include "server/cpu/cpu_backend.h"
#ifdef PARTITA_HAVE_TBB
#include <tbb/task_group.h>
#endif

namespace partita::drivers::cpu_mask {
namespace {

using device::HostKernel;

hw::UnitMask first_units(int units) {
  hw::UnitMask mask;
  for (int i = 0; i < units; ++i) mask.set(static_cast<std::size_t>(i));
  return mask;
}

// The decision alone: one batch of one work-group taken and finished, with 60 units and so many
// lanes on each.
void decide(benchmark::State& state) {
  Dispatcher dispatcher(60);
  std::vector<std::shared_ptr<Lane>> lanes;
  for (int i = 0; i < state.range(0); ++i) {
    lanes.push_back(dispatcher.add(first_units(60)));
    dispatcher.push(*lanes.back(), Execution{[](std::int64_t) {}, std::int64_t{1} << 60});
  }
  int unit = 0;
  for (auto _ : state) {
    dispatcher.finish(*dispatcher.take(unit), unit, 1);
    unit = unit == 59 ? 0 : unit + 1;
  }
}
BENCHMARK(decide)->Arg(1)->Arg(4)->Arg(32)->ArgName("lanes");

// Time per batch, all of launching and finishing included, where work-groups do nothing: kernels of
// one work-group, of a batch or a few per unit, and of many.
void batches(benchmark::State& state) {
  const int units = static_cast<int>(state.range(0));
  const auto driver = *CpuMaskDriver::open(hw::generic_topology(1, units));
  const int lane = *driver->create_lane(first_units(units));
  const std::int64_t groups = state.range(1);
  std::int64_t ran = 0;
  for (auto _ : state) {
    for (int i = 0; i < 1'000; ++i)
      CHECK(driver->launch(lane, {groups, HostKernel{[](std::int64_t) {}}}));
    CHECK(driver->synchronise(lane));
    ran += 1'000 * groups;
  }
  const auto total = static_cast<double>(driver->taken());
  state.counters["per_batch"] =
      benchmark::Counter(total, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["groups_per_batch"] = static_cast<double>(ran) / total;
  CHECK(driver->outside() == 0);
}
BENCHMARK(batches)
    ->ArgsProduct({{1, 2, 15, 60}, {1, 60, 10'000}})
    ->ArgNames({"units", "groups"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// One kernel of one work-group, launched and waited for.
void round_trip(benchmark::State& state) {
  const auto driver = *CpuMaskDriver::open(hw::generic_topology(1, 2));
  const int lane = *driver->create_lane(first_units(1));
  for (auto _ : state) {
    CHECK(driver->launch(lane, {1, HostKernel{[](std::int64_t) {}}}));
    CHECK(driver->synchronise(lane));
  }
}
BENCHMARK(round_trip)->UseRealTime()->Unit(benchmark::kMicrosecond);

#ifdef PARTITA_HAVE_TBB
// oneTBB's task groups beside it, on as many threads as there are processors: so many empty tasks,
// then one alone.
void onetbb(benchmark::State& state) {
  tbb::task_group group;
  const std::int64_t tasks = state.range(0);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < tasks; ++i) group.run([] {});
    group.wait();
  }
  state.counters["per_task"] =
      benchmark::Counter(static_cast<double>(state.iterations() * tasks),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(onetbb)->Arg(1'000)->Arg(1)->UseRealTime();
#endif

// What it costs to place a launch on a lane: a session's launches without a policy, all on one
// lane (a plan of one lane), each on another lane than the one before, and prefill beside decode.
// Times of enqueuing alone, medians over batches; then with the kernels.
void routing(benchmark::State& state) {
  namespace cpu = remote::cpu;
  constexpr int kBatch = 100, kKernels = 20;
  struct Planned final : cpu::Tenant {
    std::shared_ptr<cpu::Placing> plan = std::make_shared<cpu::Placing>();
    std::shared_ptr<const cpu::Placing> placing() override { return plan; }
  };
  const auto planned = std::make_shared<Planned>();
  for (std::size_t i = 0; i <= kKernels; ++i) {
    if (i < kKernels) planned->plan->kernels.push_back("nothing");
    planned->plan->masks.push_back(state.range(0) == 2 && i % 2 == 1 ? 1 : 3);
  }
  if (state.range(0) == 3) {
    planned->plan->masks = {3, 1, 2};
    planned->plan->phases = {
        std::make_shared<lanes::PhaseShare>(lanes::PhaseOptions{.units = 2, .decode = {1}}),
        lanes::Phase::prefill};
  }
  cpu::CpuOptions options{.units = 2, .memory = 1 << 20};
  if (state.range(0) > 0) options.tenant = planned;
  const auto backend = *cpu::CpuBackend::open(options);
  const auto module = *backend->create(remote::server::ModuleSpec{
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n"});
  const auto kernel = *backend->find_kernel(module, "nothing");
  std::vector<double> each;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      if (i % kKernels == 0) backend->request_ended(true);
      CHECK(backend->enqueue(
          remote::server::kDefaultStream,
          remote::server::LaunchWork{.kernel = kernel.id, .grid = {1, 1, 1}, .block = {1, 1, 1}}));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    each.push_back(took.count() / kBatch);
    while (!backend->finished(remote::server::ObjectKind::stream, remote::server::kDefaultStream))
      backend->poll();
  }
  state.counters["enqueue_p50"] = median(each);
}
BENCHMARK(routing)->DenseRange(0, 3)->ArgName("lanes")->UseRealTime();

// What a launch asks of the share of its phase, its end included, beside the other phase.
void phase_share(benchmark::State& state) {
  const auto share =
      std::make_shared<lanes::PhaseShare>(lanes::PhaseOptions{.units = 8, .decode = {2, 4, 6}});
  const auto beside = lanes::PhaseShare::work(share, lanes::Phase::decode);
  constexpr int kBatch = 100;
  std::vector<double> each;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      const auto work = lanes::PhaseShare::work(share, lanes::Phase::prefill);
      benchmark::DoNotOptimize(share->lane_of(lanes::Phase::prefill));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    each.push_back(took.count() / kBatch);
  }
  state.counters["launch_p50"] = median(each);
}
BENCHMARK(phase_share);

// 10^7 work-groups of 16 lanes with random overlapping masks on 4x15 units.
void ten_million(benchmark::State& state) {
  std::atomic<std::int64_t> outside = 0, ran = 0;
  for (auto _ : state) {
    const auto driver = *CpuMaskDriver::open(hw::generic_topology(4, 15));
    Rng rng(1);
    std::vector<int> lanes;
    std::vector<hw::UnitMask> masks(16);
    for (hw::UnitMask& mask : masks) {
      for (std::size_t unit = 0; unit < 60; ++unit) mask[unit] = rng.below(3) == 0;
      mask.set(rng.below(60));
      lanes.push_back(*driver->create_lane(mask));
    }
    for (int kernel = 0; kernel < 10'000; ++kernel) {
      const auto i = static_cast<std::size_t>(kernel) % lanes.size();
      const HostKernel code{[&, i](std::int64_t) {
        const int unit = this_unit();
        if (unit < 0 || !masks[i][static_cast<std::size_t>(unit)]) ++outside;
        ran.fetch_add(1, std::memory_order_relaxed);
      }};
      CHECK(driver->launch(lanes[i], {1'000, code}));
    }
    for (const int lane : lanes) CHECK(driver->synchronise(lane));
    outside += driver->outside();
  }
  state.counters["ran"] = static_cast<double>(ran);
  state.counters["outside"] = static_cast<double>(outside);
}
BENCHMARK(ten_million)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita::drivers::cpu_mask
