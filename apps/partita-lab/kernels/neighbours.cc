#include "kernels/neighbours.h"

#include <chrono>
#include <numeric>
#include <system_error>

#include "base/check.h"
#include "drivers/cpu_mask/host_kernels.h"

namespace partita::cli {
namespace {

using profile::Neighbour;

// A work-group takes some 50 us, a kernel some 10 ms.
constexpr std::int64_t kRounds = 30'000;
constexpr std::int64_t kBytes = 512 << 10;
constexpr std::int64_t kGroupsPerUnit = 200;
constexpr std::chrono::milliseconds kWatched{300};

// Work-groups of readers per second while nothing changes.
Result<double> rate_of(Neighbours& readers) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  const std::int64_t before = TRY(readers.done());
  std::this_thread::sleep_for(kWatched);
  const std::int64_t after = TRY(readers.done());
  return static_cast<double>(after - before) /
         std::chrono::duration<double>(clock::now() - begin).count();
}

}  // namespace

Result<std::unique_ptr<Neighbours>> Neighbours::start(int units, Neighbour kind) {
  std::unique_ptr<Neighbours> made(new Neighbours);
  made->kernels_ = std::make_unique<drivers::cpu_mask::HostKernels>();
  const hw::Topology topology = hw::generic_topology(1, units);
  made->driver_ = TRY(drivers::cpu_mask::CpuMaskDriver::open(topology));
  made->lane_ = TRY(made->driver_->create_lane(hw::all_units(topology)));
  const std::int64_t groups = kGroupsPerUnit * units;
  auto kernel = TRY(kind == Neighbour::computing ? made->kernels_->computing(groups, kRounds)
                                                 : made->kernels_->reading(groups, kBytes));
  try {
    made->feeder_ = std::thread([self = made.get(), kernel] { self->keep_busy(kernel); });
  } catch (const std::system_error& error) {
    return environment_error("thread of the neighbours", error.what());
  }
  return made;
}

Neighbours::~Neighbours() {
  ending_ = true;
  if (feeder_.joinable()) feeder_.join();
}

// Two at a time, so that no unit waits for the next one.
void Neighbours::keep_busy(const device::Kernel& kernel) {
  while (!ending_) {
    for (int i = 0; i < 2; ++i) CHECK(driver_->launch(lane_, kernel).has_value());
    CHECK(driver_->synchronise(lane_).has_value());
  }
}

Result<std::int64_t> Neighbours::done() {
  const std::vector<std::int64_t> ran = TRY(driver_->ran(lane_));
  return std::accumulate(ran.begin(), ran.end(), std::int64_t{0});
}

Result<MemoryDisturbance> measure_memory_disturbance(int units, int beside) {
  const auto readers = TRY(Neighbours::start(units, Neighbour::reading));
  const double alone = TRY(rate_of(*readers));
  MemoryDisturbance found;
  for (const auto& [kind, slower] : {std::pair{Neighbour::computing, &found.by_computing},
                                     std::pair{Neighbour::reading, &found.by_reading}}) {
    const auto others = TRY(Neighbours::start(beside, kind));
    const double rate = TRY(rate_of(*readers));
    if (alone <= 0 || rate <= 0)
      return environment_error("--beside", "this machine ran nothing of the neighbours");
    *slower = alone / rate;
  }
  return found;
}

}  // namespace partita::cli
