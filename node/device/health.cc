#include "device/health.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita::device {
namespace {

using Kind = HealthEvent::Kind;

int clamped(long count) {
  return static_cast<int>(std::clamp<long>(count, 0, std::numeric_limits<int>::max()));
}

// What was wrong before and is not any more.
bool cured(const HealthReading& before, const HealthReading& now) {
  const auto flag = [](const std::optional<bool>& was, const std::optional<bool>& is) {
    return was.value_or(false) && is == false;
  };
  return before.lost ||
         (before.uncorrected_errors && now.uncorrected_errors &&
          *now.uncorrected_errors < *before.uncorrected_errors) ||
         flag(before.rows_pending, now.rows_pending) || flag(before.rows_failed, now.rows_failed) ||
         (before.recovery.value_or(0) != 0 && now.recovery == 0);
}

}  // namespace

std::vector<HealthEvent> HealthChanges::hear(const HealthReading& now) {
  std::vector<HealthEvent> news;
  const auto tell = [&](Kind kind, int code) { news.push_back({now.gpu_uuid, kind, code}); };
  const auto [place, is_first] = last_.try_emplace(now.gpu_uuid);
  HealthReading& last = place->second;
  if (now.lost) {
    last.lost = true;
    return {};
  }
  HealthReading before = last;
  if (cured(before, now)) {
    tell(Kind::reset, 0);
    before = last = {};
  }
  const auto flag = [&](Kind kind, const std::optional<bool>& was, const std::optional<bool>& is) {
    if (is.value_or(false) && !was.value_or(false)) tell(kind, 1);
  };
  if (now.uncorrected_errors.value_or(0) > before.uncorrected_errors.value_or(0))
    tell(Kind::ecc, clamped(*now.uncorrected_errors));
  flag(Kind::rows_pending, before.rows_pending, now.rows_pending);
  flag(Kind::rows_failed, before.rows_failed, now.rows_failed);
  if (now.recovery.value_or(0) != 0 && now.recovery != before.recovery)
    tell(Kind::recovery, *now.recovery);
  const bool read = now.uncorrected_errors || now.rows_failed || now.recovery;
  if (is_first && read && news.empty()) tell(Kind::well, now.recovery ? 1 : 0);
  // What is not told this time is as it was.
  const auto keep = [](auto& kept, const auto& said) {
    if (said) kept = said;
  };
  last.gpu_uuid = now.gpu_uuid;
  keep(last.uncorrected_errors, now.uncorrected_errors);
  keep(last.rows_pending, now.rows_pending);
  keep(last.rows_failed, now.rows_failed);
  keep(last.recovery, now.recovery);
  return news;
}

}  // namespace partita::device
