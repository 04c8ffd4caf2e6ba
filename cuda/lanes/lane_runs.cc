#include "lanes/lane_runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace partita::carry {
namespace {

// Makes kernels that take as long as profiled ones: as many work-groups as there are units that
// help, each for the kernel's shortest time.
class StandInMaker {
 public:
  StandInMaker(device::LaneDriver& driver, device::ProbeKernels& kernels, Clock& clock)
      : driver_(driver), kernels_(kernels), clock_(clock) {}

  // Measures how long a step of a computing kernel takes on the units of `mask`.
  Result<void> calibrate(const hw::UnitMask& mask) {
    const Result<int> lane = driver_.create_lane(mask);
    if (!lane) return failed(lane.error());
    for (std::int64_t rounds = 1024;; rounds *= 2) {
      const Result<double> us = time_of(*lane, rounds);
      if (!us) return failed(us.error());
      us_per_round_ = *us / static_cast<double>(rounds);
      if (*us >= 2000 || rounds >= kMostRounds) break;
    }
    return driver_.destroy_lane(*lane);
  }

  Result<device::Kernel> of(const profile::KernelProfile& kernel, const StandInOptions& options) {
    const double fastest = kernel.time_us.back();
    const auto knee = std::ranges::find_if(
        kernel.time_us, [&](double us) { return us <= fastest * (1 + options.tolerance); });
    const auto rounds = std::llround(fastest * options.scale / us_per_round_);
    return kernels_.computing(knee - kernel.time_us.begin() + 1, std::max<std::int64_t>(rounds, 1));
  }

 private:
  static constexpr std::int64_t kMostRounds = std::int64_t{1} << 40;

  Result<double> time_of(int lane, std::int64_t rounds) {
    const auto kernel = kernels_.computing(1, rounds);
    if (!kernel) return failed(kernel.error());
    const std::int64_t begin = clock_.now_ns();
    if (auto launched = driver_.launch(lane, *kernel); !launched) return failed(launched.error());
    if (auto ended = driver_.synchronise(lane); !ended) return failed(ended.error());
    return static_cast<double>(clock_.now_ns() - begin) * 1e-3;
  }

  device::LaneDriver& driver_;
  device::ProbeKernels& kernels_;
  Clock& clock_;
  double us_per_round_ = 0;
};

}  // namespace

Result<StandIns> stand_ins(device::LaneDriver& driver, device::ProbeKernels& kernels, Clock& clock,
                           const std::vector<profile::ModelKernels>& models,
                           const StandInOptions& options) {
  const auto info = driver.info();
  if (!info) return failed(info.error());
  StandInMaker maker(driver, kernels, clock);
  const hw::UnitMask first = hw::units_of(info->topology, info->atom, hw::UnitMask{1});
  if (auto calibrated = maker.calibrate(first); !calibrated) return failed(calibrated.error());
  StandIns all;
  for (const profile::ModelKernels& model : models) {
    all.emplace_back();
    for (const profile::KernelProfile& kernel : model.kernels) {
      auto made = maker.of(kernel, options);
      if (!made) return failed(made.error());
      all.back().push_back(*std::move(made));
    }
  }
  return all;
}

Result<std::vector<exec::LaneWorker>> on_lanes(const std::string& policy, const MaskOf& masks,
                                               int units, const StandIns& kernels) {
  const std::vector<int> idle(static_cast<std::size_t>(units));
  std::vector<exec::LaneWorker> workers(kernels.size());
  for (std::size_t w = 0; w < kernels.size(); ++w) {
    std::vector<hw::UnitMask>& its = workers[w].masks;
    for (std::size_t k = 0; k < kernels[w].size(); ++k) {
      const auto mask = masks(w, k, idle);
      if (!mask) return bad_input("--policies", policy + " gives no mask");
      auto found = std::ranges::find(its, *mask);
      if (found == its.end()) found = its.insert(its.end(), *mask);
      workers[w].steps.push_back({static_cast<std::size_t>(found - its.begin()), kernels[w][k]});
    }
  }
  return workers;
}

LaneOutcome outcome_of(const std::string& policy, const std::vector<exec::LaneWorkersRun>& runs) {
  LaneOutcome outcome{policy, {}, {}, 0, 0, runs.front().lanes};
  double requests = 0, waits = 0;
  for (std::size_t w = 0; w < runs.front().workers.size(); ++w) {
    std::vector<double> rps, p95;
    for (const exec::LaneWorkersRun& run : runs) {
      std::vector<std::int64_t> times = run.workers[w].latency_ns;
      std::ranges::sort(times);
      double sum = 0;
      for (const std::int64_t ns : times) sum += static_cast<double>(ns) * 1e-9;
      rps.push_back(static_cast<double>(times.size()) / sum);
      p95.push_back(static_cast<double>(times[(times.size() * 95 + 99) / 100 - 1]) * 1e-6);
      requests += static_cast<double>(times.size());
      outcome.switches += static_cast<double>(run.workers[w].switches);
      waits += static_cast<double>(run.workers[w].waits);
    }
    outcome.rps.push_back(median(rps));
    outcome.p95_ms.push_back(median(p95));
  }
  outcome.waits = outcome.switches > 0 ? waits / outcome.switches : 0;
  outcome.switches /= requests;
  return outcome;
}

}  // namespace partita::carry
