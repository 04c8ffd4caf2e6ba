#include "device/testing/lane_conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error_code.h"
#include "base/rng.h"

namespace partita::device {
namespace {

constexpr int kNever = 1'000'000'000;  // a number that no lane and no event has

class LaneSuite {
 public:
  LaneSuite(LaneDriver& driver, ProbeKernels& probes) : driver_(driver), probes_(probes) {}

  std::vector<std::string> run() {
    const auto info = driver_.info();
    if (!answers(info, "ok", "info")) return found_;
    info_ = *info;
    grains_ = hw::grains(info_.topology, info_.atom);
    expect(!info_.name.empty() && info_.max_lanes > 0 && info_.max_events > 0 &&
               info_.max_queued > 0 && info_.atom > 0 && grains_ > 0,
           "info: there are a name, limits and units");
    if (!found_.empty()) return found_;
    illegal_masks();
    unknown_numbers();
    illegal_kernels();
    every_grain_alone();
    random_masks();
    kernels_in_order();
    lanes_beside_each_other();
    event_across_lanes();
    event_on_its_own_lane();
    lane_limit();
    queue_limit();
    return found_;
  }

 private:
  void expect(bool holds, std::string sentence) {
    if (!holds && found_.size() < kMaxLaneViolations) found_.push_back(std::move(sentence));
  }

  // `result` must be `want` ("ok" or a code); an error must name a call and its arguments.
  template <class T>
  bool answers(const Result<T>& result, std::string_view want, std::string_view call) {
    const std::string outcome = result ? "ok" : std::string(to_string(result.error().code));
    expect(outcome == want, fmt::format("{}: answered {}, {} is due", call, outcome, want));
    if (!result) {
      const std::size_t arguments = result.error().context.find('(');
      expect(arguments != std::string::npos && arguments > 0,
             fmt::format("{}: its error names '{}', not the call and its arguments", call,
                         result.error().context));
    }
    return outcome == want;
  }

  // The units of grains `first` .. `last` - 1.
  hw::UnitMask units(int first, int last) const {
    hw::UnitMask grains;
    for (int i = first; i < last; ++i) grains.set(static_cast<std::size_t>(i));
    return hw::units_of_grains(info_.topology, info_.atom, grains);
  }

  int create(const hw::UnitMask& mask) {
    const auto lane = driver_.create_lane(mask);
    if (!answers(lane, "ok", "create_lane")) return kNever;
    expect(*lane > last_lane_ || last_lane_ == kNever, "create_lane: a number comes twice");
    last_lane_ = *lane;
    const auto state = driver_.query(*lane);
    expect(state && *state == LaneState{mask, 0}, "query: a new lane is idle and has its mask");
    return *lane;
  }

  void destroy(int lane) {
    answers(driver_.destroy_lane(lane), "ok", "destroy_lane");
    answers(driver_.destroy_lane(lane), "not_found", "destroy_lane: twice");
  }

  // Launches a new kernel; its number.
  int launch(int lane, std::int64_t groups, bool closed = false) {
    const int number = kernels_;
    answers(driver_.launch(lane, kernel(groups, closed)), "ok", "launch");
    return number;
  }

  Kernel kernel(std::int64_t groups, bool closed = false) {
    auto made = probes_.noting(kernels_++, groups, closed);
    expect(made.has_value(), "a kernel of the probes could not be made");
    return made ? *std::move(made) : Kernel{groups, HostKernel{}};
  }

  void synchronise(int lane) {
    if (!answers(driver_.synchronise(lane), "ok", "synchronise")) readable_ = false;
  }

  // Each work-group of a finished kernel ran once, on the mask; the notes. None once a lane could
  // not be synchronised, because kernels may then still write them.
  std::vector<GroupNote> ran(int number, std::int64_t groups, const hw::UnitMask& mask) {
    if (!readable_) return {};
    std::vector<GroupNote> notes = probes_.notes(number);
    std::ranges::sort(notes, {}, &GroupNote::group);
    bool once = static_cast<std::int64_t>(notes.size()) == groups;
    for (std::size_t i = 0; i < notes.size(); ++i) {
      once = once && notes[i].group == static_cast<std::int64_t>(i);
      const int unit = notes[i].unit;
      expect(unit >= 0 && unit < hw::kMaxUnits && mask[static_cast<std::size_t>(unit)],
             fmt::format("launch: a work-group ran on unit {}, outside its mask", unit));
    }
    expect(once, fmt::format("launch: not every one of {} work-groups ran exactly once", groups));
    return notes;
  }

  void expect_before(const std::vector<GroupNote>& first, const std::vector<GroupNote>& second,
                     std::string_view why) {
    if (first.empty() || second.empty()) return;
    const std::int64_t end = std::ranges::max_element(first, {}, &GroupNote::end)->end;
    const std::int64_t begin = std::ranges::min_element(second, {}, &GroupNote::begin)->begin;
    expect(end < begin, fmt::format("{}: a kernel began before the one before it ended", why));
  }

  void illegal_masks() {
    answers(driver_.create_lane({}), "invalid_argument", "create_lane: no unit");
    const auto beyond = static_cast<std::size_t>(info_.topology.units());
    if (beyond < hw::kMaxUnits) {
      answers(driver_.create_lane(units(0, 1).set(beyond)), "invalid_argument",
              "create_lane: a unit that is not there");
    }
    if (info_.atom > 1)
      answers(driver_.create_lane(units(0, 1).reset(0)), "invalid_argument",
              "create_lane: part of an atom");
    const auto die = static_cast<std::size_t>(info_.topology.units() / info_.topology.dies);
    if (info_.topology.dies > 1)
      answers(driver_.create_lane(hw::all_units(info_.topology) >> die), "invalid_argument",
              "create_lane: no unit of a die");
  }

  void unknown_numbers() {
    const int lane = create(units(0, 1));
    const auto event = driver_.record_event(lane);
    answers(event, "ok", "record_event");
    for (const int other : {-1, 0, kNever}) {
      answers(driver_.query(other), "not_found", "query: unknown lane");
      answers(driver_.launch(other, kernel(1)), "not_found", "launch: unknown lane");
      answers(driver_.synchronise(other), "not_found", "synchronise: unknown lane");
      answers(driver_.record_event(other), "not_found", "record_event: unknown lane");
      answers(driver_.wait_event(other, event ? *event : 0), "not_found",
              "wait_event: unknown lane");
      answers(driver_.wait_event(lane, other), "not_found", "wait_event: unknown event");
      answers(driver_.destroy_lane(other), "not_found", "destroy_lane: unknown lane");
      answers(driver_.event_finished(other), "not_found", "event_finished: unknown event");
      answers(driver_.destroy_event(other), "not_found", "destroy_event: unknown event");
    }
    if (event) {
      answers(driver_.destroy_event(*event), "ok", "destroy_event");
      answers(driver_.destroy_event(*event), "not_found", "destroy_event: twice");
    }
    synchronise(lane);
    destroy(lane);
  }

  void illegal_kernels() {
    const int lane = create(units(0, 1));
    for (const std::int64_t groups : {0, -1}) {
      Kernel refused = kernel(1);
      refused.groups = groups;
      answers(driver_.launch(lane, std::move(refused)), "invalid_argument",
              fmt::format("launch: {} work-groups", groups));
    }
    // Of both kinds, the one without code is refused one way or the other.
    for (const Kernel& empty : {Kernel{1, HostKernel{}}, Kernel{1, DeviceKernel{}}}) {
      const auto launched = driver_.launch(lane, empty);
      expect(!launched && (launched.error().code == ErrorCode::invalid_argument ||
                           launched.error().code == ErrorCode::not_supported),
             "launch: a kernel without code is refused");
    }
    synchronise(lane);
    destroy(lane);
  }

  void every_grain_alone() {
    for (int grain = 0; grain < grains_; ++grain) run_on(units(grain, grain + 1), 3);
  }

  void random_masks() {
    Rng rng(7);
    for (int round = 0; round < 8; ++round) {
      hw::UnitMask grains;
      for (int i = 0; i < grains_; ++i) grains[static_cast<std::size_t>(i)] = rng.below(2) == 0;
      grains.set(rng.below(static_cast<std::uint64_t>(grains_)));
      run_on(hw::units_of_grains(info_.topology, info_.atom, grains),
             1 + static_cast<std::int64_t>(rng.below(500)));
    }
  }

  void run_on(const hw::UnitMask& mask, std::int64_t groups) {
    const int lane = create(mask);
    const int number = launch(lane, groups);
    synchronise(lane);
    ran(number, groups, mask);
    const auto state = driver_.query(lane);
    expect(state && state->queued == 0, "query: a synchronised lane is idle");
    destroy(lane);
  }

  void kernels_in_order() {
    const hw::UnitMask mask = units(0, grains_);
    const int lane = create(mask);
    std::vector<int> numbers;
    for (int i = 0; i < 10; ++i) numbers.push_back(launch(lane, 1 + 7 * i));
    synchronise(lane);
    std::vector<GroupNote> before;
    for (int i = 0; i < 10; ++i) {
      auto now = ran(numbers[static_cast<std::size_t>(i)], 1 + 7 * i, mask);
      expect_before(before, now, "launch");
      before = std::move(now);
    }
    destroy(lane);
  }

  // While a kernel of one lane cannot end, another lane's kernel on other units does.
  void lanes_beside_each_other() {
    if (grains_ < 2) return;
    const int held = create(units(0, 1)), free = create(units(1, 2));
    const int first = launch(held, 1, true), second = launch(free, 5);
    synchronise(free);
    ran(second, 5, units(1, 2));
    const auto state = driver_.query(held);
    expect(state && state->queued == 1, "query: a kernel that cannot end is unfinished");
    answers(driver_.destroy_lane(held), "in_use", "destroy_lane: with an unfinished kernel");
    probes_.open(first);
    synchronise(held);
    ran(first, 1, units(0, 1));
    destroy(held);
    destroy(free);
  }

  // An event that a lane waits for, of which the number is given back meanwhile; and one that is
  // finished.
  void event_across_lanes() {
    if (grains_ < 2) return;
    const int one = create(units(0, 1)), two = create(units(1, 2));
    const int first = launch(one, 1, true);
    const auto event = driver_.record_event(one);
    if (!answers(event, "ok", "record_event")) return probes_.open(first);
    const auto finished = driver_.event_finished(*event);
    expect(finished && !*finished, "event_finished: not before what was queued before it");
    const auto waits = driver_.wait_event(two, *event);
    expect(waits && *waits, "wait_event: has to wait for a kernel that cannot end");
    const int second = launch(two, 4);
    const auto state = driver_.query(two);
    expect(state && state->queued == 2, "query: what waits for an event is unfinished");
    answers(driver_.destroy_event(*event), "ok", "destroy_event: while a lane waits");
    probes_.open(first);
    synchronise(two);
    synchronise(one);
    expect_before(ran(first, 1, units(0, 1)), ran(second, 4, units(1, 2)), "wait_event");
    const auto past = driver_.record_event(one);
    synchronise(one);
    if (answers(past, "ok", "record_event")) {
      const auto over = driver_.event_finished(*past), skipped = driver_.wait_event(two, *past);
      expect(over && *over, "event_finished: on a synchronised lane");
      expect(skipped && !*skipped, "wait_event: nothing to wait for when it is finished");
      answers(driver_.destroy_event(*past), "ok", "destroy_event");
    }
    destroy(one);
    destroy(two);
  }

  void event_on_its_own_lane() {
    const int lane = create(units(0, 1));
    const int first = launch(lane, 1, true);
    const auto event = driver_.record_event(lane);
    if (answers(event, "ok", "record_event"))
      answers(driver_.wait_event(lane, *event), "ok", "wait_event: of its own lane");
    const int second = launch(lane, 1);
    probes_.open(first);
    synchronise(lane);
    expect_before(ran(first, 1, units(0, 1)), ran(second, 1, units(0, 1)), "wait_event");
    if (event) answers(driver_.destroy_event(*event), "ok", "destroy_event");
    destroy(lane);
  }

  void lane_limit() {
    std::vector<int> lanes;
    for (int i = 0; i < info_.max_lanes; ++i) lanes.push_back(create(units(0, 1)));
    answers(driver_.create_lane(units(0, 1)), "limit", "create_lane: one too many");
    for (const int lane : lanes) answers(driver_.destroy_lane(lane), "ok", "destroy_lane");
    run_on(units(0, 1), 2);
  }

  void queue_limit() {
    const int lane = create(units(0, 1));
    const int first = launch(lane, 1, true);
    const auto event = driver_.record_event(lane);
    if (!answers(event, "ok", "record_event")) return probes_.open(first);
    Result<bool> waits = true;
    std::int64_t queued = 2;
    for (; waits && queued <= info_.max_queued; ++queued) waits = driver_.wait_event(lane, *event);
    answers(waits, "limit", "wait_event: one too many");
    expect(queued == info_.max_queued + 1, "query: the limit is as info() says");
    answers(driver_.launch(lane, kernel(1)), "limit", "launch: one too many");
    probes_.open(first);
    synchronise(lane);
    answers(driver_.destroy_event(*event), "ok", "destroy_event");
    destroy(lane);
  }

  LaneDriver& driver_;
  ProbeKernels& probes_;
  LaneDriverInfo info_;
  int grains_ = 0;
  int kernels_ = 0;
  int last_lane_ = kNever;
  bool readable_ = true;  // notes
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> check_lanes(LaneDriver& driver, ProbeKernels& kernels) {
  return LaneSuite(driver, kernels).run();
}

}  // namespace partita::device
