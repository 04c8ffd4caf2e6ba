#include "forms/clock_time.h"

#include "base/parse_number.h"
#include "plan/traffic.h"

namespace partita::forms {

std::optional<int> minute_of(std::string_view text) {
  constexpr int kMinutesOfHour = 60;
  const std::size_t colon = text.find(':');
  if (colon == text.npos || colon == 0 || colon > 2 || text.size() - colon != 3) return {};
  const auto hour = parse_number<int>(text.substr(0, colon));
  const auto minute = parse_number<int>(text.substr(colon + 1));
  if (!hour || !minute || *hour < 0 || *minute < 0 || *minute >= kMinutesOfHour) return {};
  const int all = *hour * kMinutesOfHour + *minute;
  return all < plan::kMinutesOfDay ? std::optional(all) : std::nullopt;
}

}  // namespace partita::forms
