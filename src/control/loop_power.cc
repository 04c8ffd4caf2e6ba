// The cap on a node's watts, and whose they are, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "control/loop_work.h"

namespace partita::control {
namespace {

constexpr double kLeastStepW = 1;  // that a limit is changed for
constexpr std::int64_t kPowerRetryMs = 60'000;

}  // namespace

void Loop::Work::hear_power(const Seen& seen) {
  for (const PowerEnd& end : seen.power_ends) {
    if (end.outcome) continue;
    const Error& error = end.outcome.error();
    power_retry_ms_ = now_ + kPowerRetryMs;
    if (error.code == ErrorCode::denied) power_denied_.insert(end.uuid);
    tell(NoticeKind::other, "power:" + to_string(error), end.uuid,
         error.code == ErrorCode::denied
             ? "the power limit may not be set here, so it is left alone: " + to_string(error)
             : "the power limit could not be set; it is tried again: " + to_string(error));
  }
}

void Loop::Work::cap_power(const Seen& seen) {
  const double cap = world_.settings.power.cap_w;
  if (cap <= 0 || !node_known_ || mode() == Mode::observe || now_ < power_retry_ms_) return;
  std::vector<PowerBoard> boards = seen.power;
  double least = 0;
  for (PowerBoard& board : boards) {
    const device::GpuState* gpu = state_.find(board.uuid);
    board.used = gpu != nullptr && (!gpu->instances.empty() || is_lent(board.uuid) ||
                                    (memory_.target && target_uses(*memory_.target, board.uuid)));
    board.fixed = power_denied_.contains(board.uuid);
    least += board.fixed ? board.now : board.least;
  }
  if (least > cap)
    tell(
        NoticeKind::other, "power_cap", "",
        fmt::format("the limits of {} GPUs cannot be below {:.0f} W together, so the cap of {:.0f} "
                    "W does not hold",
                    boards.size(), least, cap));
  const std::vector<double> limits = split_power(boards, cap);
  for (std::size_t b = 0; b < boards.size(); ++b)
    if (!boards[b].fixed && std::abs(limits[b] - boards[b].now) >= kLeastStepW)
      deeds_.power.push_back({boards[b].index, boards[b].uuid, limits[b], boards[b].now});
  // First down, then up: the sum never goes above what it was or shall be.
  std::ranges::stable_sort(deeds_.power, {},
                           [](const PowerDeed& deed) { return deed.watts - deed.before; });
  for (const PowerDeed& deed : deeds_.power)
    if (deed.watts < deed.before)
      tell(NoticeKind::other, "power_lowered", "",
           fmt::format("GPUs are limited to keep {:.0f} W together; services may be slower than "
                       "their profiles say",
                       cap));
}

// Of the boards' watts each instance counts as its compute slices.
std::map<std::string, double> Loop::Work::service_watts(const Seen& seen) const {
  std::map<std::string, double> watts;
  if (!seen.sample) return watts;
  for (const telemetry::GpuSample& sample : seen.sample->gpus) {
    const device::GpuState* gpu = state_.find(sample.uuid);
    if (gpu == nullptr || !sample.power || sample.compute_slices <= 0) continue;
    for (const device::Instance& instance : gpu->instances)
      for (const actuate::AssignedSegment& one : assignment_.segments)
        if (one.device == instance.uuid())
          watts[one.service] +=
              sample.power->value * gpcs_of_profile(instance.profile) / sample.compute_slices;
  }
  return watts;
}

}  // namespace partita::control
