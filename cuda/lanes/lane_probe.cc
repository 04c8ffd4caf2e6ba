#include "lanes/lane_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/median.h"
#include "device/lane_graphs.h"

namespace partita::exec {
namespace {

using device::Kernel;

constexpr int kChain = 64;          // kernels queued behind each other to time one of them
constexpr int kGroupsPerUnit = 64;  // of the kernels whose time is to depend on the units
constexpr std::int64_t kOtherQueue = 4;
constexpr std::int64_t kMostRounds = std::int64_t{1} << 40;

class Prober {
 public:
  Prober(device::LaneDriver& driver, device::ProbeKernels& kernels, Clock& clock,
         const LaneProbeSettings& settings)
      : driver_(driver), kernels_(kernels), clock_(clock), settings_(settings) {}

  Result<LaneProbe> go() {
    using Step = void (Prober::*)();
    constexpr std::pair<const char*, Step> kSteps[] = {
        {"creating lanes", &Prober::creation},     {"launching", &Prober::launching},
        {"switching lanes", &Prober::switching},   {"graphs of several lanes", &Prober::graphs},
        {"where work-groups run", &Prober::place}, {"times by units", &Prober::scaling},
        {"disturbance", &Prober::disturbances}};
    probe_.info = take(driver_.info());
    for (const auto& [what, step] : kSteps) {
      if (error_) break;
      settings_.progress(what);
      (this->*step)();
    }
    if (error_) return failed(*error_);
    return std::move(probe_);
  }

 private:
  // The value of a call; after a failure a default, and nothing that is measured counts.
  template <class T>
  T take(Result<T> result) {
    if (result) return *std::move(result);
    if (!error_) error_ = result.error();
    return T{};
  }
  void take(const Result<void>& result) {
    if (!result && !error_) error_ = result.error();
  }

  template <class Run>
  double time_us(Run run) {
    const std::int64_t begin = clock_.now_ns();
    run();
    return static_cast<double>(clock_.now_ns() - begin) * 1e-3;
  }

  static MedianTime median_of(std::vector<double> times) {
    if (times.empty()) return {};
    const double most = *std::ranges::max_element(times);
    return {median(std::move(times)), most};
  }

  template <class Run>
  MedianTime repeated(Run run) {
    std::vector<double> times;
    for (int i = 0; i < settings_.rounds && !error_; ++i) times.push_back(time_us(run));
    return median_of(std::move(times));
  }

  Kernel empty() { return take(kernels_.computing(1, 0)); }
  void launch(int lane, const Kernel& kernel) { take(driver_.launch(lane, kernel)); }
  void wait(int lane) { take(driver_.synchronise(lane)); }
  int create(const hw::UnitMask& mask) { return take(driver_.create_lane(mask)); }
  void destroy(int lane) { take(driver_.destroy_lane(lane)); }

  void creation() {
    // Modules and memory of the probes themselves exist before memory is read.
    const int first = create(settings_.all);
    launch(first, empty());
    wait(first);
    destroy(first);
    const auto before = take(kernels_.free_memory());
    std::vector<int> lanes;
    std::vector<double> times, again, ended;
    const auto most = static_cast<std::size_t>(probe_.info.max_lanes);
    for (std::size_t i = 0; i < std::min(settings_.masks.size(), most) && !error_; ++i)
      times.push_back(time_us([&] { lanes.push_back(create(settings_.masks[i])); }));
    const auto after = take(kernels_.free_memory());
    if (before && after && !lanes.empty())
      probe_.bytes_per_lane =
          static_cast<double>(*before - *after) / static_cast<double>(lanes.size());
    probe_.lanes = static_cast<int>(lanes.size());
    for (const int lane : lanes) ended.push_back(time_us([&] { destroy(lane); }));
    for (std::size_t i = 0; i < lanes.size() && !error_; ++i) {
      int lane = 0;
      again.push_back(time_us([&] { lane = create(settings_.masks[i]); }));
      destroy(lane);
    }
    probe_.create_new = median_of(std::move(times));
    probe_.create_again = median_of(std::move(again));
    probe_.destroy = median_of(std::move(ended));
  }

  void launching() {
    const int lane = create(settings_.all);
    const Kernel kernel = empty();
    std::vector<double> calls;
    probe_.round_trip = repeated([&] {
      calls.push_back(time_us([&] { launch(lane, kernel); }));
      wait(lane);
    });
    probe_.launch = median_of(std::move(calls));
    probe_.queued_us = repeated([&] {
                         for (int i = 0; i < kChain; ++i) launch(lane, kernel);
                         wait(lane);
                       }).median_us /
                       kChain;
    destroy(lane);
  }

  // A chain of kernels in which every one waits for the one before it, on the other lane.
  void chain_by_events(const int (&lanes)[2], const Kernel& kernel) {
    std::vector<int> events;
    for (int i = 0; i < kChain; ++i) {
      if (i > 0) take(driver_.wait_event(lanes[i % 2], events.back()));
      launch(lanes[i % 2], kernel);
      events.push_back(take(driver_.record_event(lanes[i % 2])));
    }
    for (const int lane : lanes) wait(lane);
    for (const int event : events) take(driver_.destroy_event(event));
  }

  void switching() {
    if (settings_.rest.none()) return;
    const int lanes[2] = {create(settings_.half), create(settings_.rest)};
    const Kernel kernel = empty();
    probe_.event_switch_us = repeated([&] { chain_by_events(lanes, kernel); }).median_us / kChain;
    probe_.host_switch_us = repeated([&] {
                              for (int i = 0; i < kChain; ++i) {
                                launch(lanes[i % 2], kernel);
                                wait(lanes[i % 2]);
                              }
                            }).median_us /
                            kChain;
    for (const int lane : lanes) destroy(lane);
  }

  // Time per kernel of a chain as one graph, alternating between two lanes.
  double graph_time(int one, int two) {
    std::vector<device::LaneGraphNode> nodes;
    for (int i = 0; i < kChain; ++i) {
      nodes.push_back({i % 2 == 0 ? one : two, empty()});
      if (i > 0) nodes.back().after.push_back(i - 1);
    }
    device::LaneGraphs& graphs = *driver_.graphs();
    const int graph = take(graphs.create_graph(nodes));
    const MedianTime time = repeated([&] {
      take(graphs.launch_graph(graph));
      take(graphs.synchronise_graph(graph));
    });
    take(graphs.destroy_graph(graph));
    return time.median_us / kChain;
  }

  void graphs() {
    if (driver_.graphs() == nullptr || settings_.rest.none()) return;
    const int one = create(settings_.half), two = create(settings_.rest);
    probe_.graph_us = graph_time(one, one);
    probe_.graph_switch_us = graph_time(one, two);
    destroy(one);
    destroy(two);
  }

  void place() {
    int number = 0;
    for (const hw::UnitMask& mask : settings_.masks) {
      const int lane = create(mask);
      const auto groups = static_cast<std::int64_t>(kGroupsPerUnit * mask.count());
      launch(lane, take(kernels_.noting(number, groups, false)));
      wait(lane);
      if (error_) return;
      const std::vector<device::GroupNote> notes = kernels_.notes(number);
      if (std::cmp_not_equal(notes.size(), groups)) {
        error_ = Error{ErrorCode::environment,
                       fmt::format("{} of {} work-groups reported", notes.size(), groups),
                       fmt::format("notes(mask {})", hw::mask_hex(mask))};
        return;
      }
      for (const device::GroupNote& note : notes) {
        ++probe_.groups;
        const bool inside = note.unit >= 0 && note.unit < hw::kMaxUnits &&
                            mask[static_cast<std::size_t>(note.unit)];
        probe_.groups_outside += !inside;
      }
      ++number;
      destroy(lane);
    }
  }

  // A kernel that keeps all units busy for about the wanted time.
  Kernel computing_for(double us) {
    const int lane = create(settings_.all);
    const auto groups = static_cast<std::int64_t>(kGroupsPerUnit * settings_.all.count());
    const Kernel none = take(kernels_.computing(groups, 0));
    const auto timed = [&](const Kernel& kernel) {
      return repeated([&] {
               launch(lane, kernel);
               wait(lane);
             })
          .median_us;
    };
    const double floor = timed(none);
    std::int64_t rounds = 64;
    Kernel kernel = take(kernels_.computing(groups, rounds));
    for (double time = timed(kernel); time - floor < us && rounds < kMostRounds && !error_;
         time = timed(kernel)) {
      rounds *= 2;
      kernel = take(kernels_.computing(groups, rounds));
    }
    destroy(lane);
    return kernel;
  }

  void scaling() {
    const Kernel kernel = computing_for(settings_.kernel_us);
    for (const MaskFamily& family : settings_.families) {
      for (const hw::UnitMask& mask : family.masks) {
        if (error_) return;
        const int lane = create(mask);
        const MedianTime time = repeated([&] {
          launch(lane, kernel);
          wait(lane);
        });
        destroy(lane);
        probe_.scaling.push_back({family.name, static_cast<int>(mask.count()), time.median_us});
      }
    }
  }

  // Round trips of `kernel` on a mask, while a lane of another mask always has `other` to run.
  MedianTime beside(const hw::UnitMask& mask, const Kernel& kernel, const hw::UnitMask& others,
                    const Kernel* other) {
    const int lane = create(mask);
    const int full = other != nullptr ? create(others) : 0;
    const auto fill = [&] {
      if (other == nullptr) return;
      for (auto queued = take(driver_.query(full)).queued; queued < kOtherQueue && !error_;
           ++queued)
        launch(full, *other);
    };
    std::vector<double> times;
    for (int i = 0; i < settings_.rounds && !error_; ++i) {
      fill();
      times.push_back(time_us([&] {
        launch(lane, kernel);
        wait(lane);
      }));
    }
    if (other != nullptr) {
      wait(full);
      destroy(full);
    }
    destroy(lane);
    return median_of(std::move(times));
  }

  void disturbances() {
    if (settings_.rest.none()) return;
    const Kernel mine = computing_for(settings_.kernel_us / 4);
    const Kernel computing = computing_for(settings_.kernel_us);
    const auto groups = static_cast<std::int64_t>(kGroupsPerUnit * settings_.all.count());
    const Kernel reading = take(kernels_.reading(groups, std::int64_t{1} << 16));
    for (const auto& [name, other] :
         {std::pair("computing", &computing), std::pair("reading", &reading)}) {
      Disturbance found{name, {}, {}, {}, {}};
      found.alone = beside(settings_.all, mine, {}, nullptr);
      found.alone_on_half = beside(settings_.half, mine, {}, nullptr);
      found.sharing_all = beside(settings_.all, mine, settings_.all, other);
      found.on_halves = beside(settings_.half, mine, settings_.rest, other);
      probe_.disturbances.push_back(std::move(found));
    }
  }

  device::LaneDriver& driver_;
  device::ProbeKernels& kernels_;
  Clock& clock_;
  const LaneProbeSettings& settings_;
  std::optional<Error> error_;
  LaneProbe probe_;
};

}  // namespace

Result<LaneProbe> probe_lanes(device::LaneDriver& driver, device::ProbeKernels& kernels,
                              Clock& clock, const LaneProbeSettings& settings) {
  CHECK(settings.rounds >= 1 && (settings.half & settings.rest).none() && settings.all.any());
  return Prober(driver, kernels, clock, settings).go();
}

}  // namespace partita::exec
