#include "plan/reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace partita::plan {

namespace {

// A search that gave up, and what a planner cannot do: its limits, an SLO rule that is not its own,
// a percentile of which no run says anything.
constexpr std::string_view kUnproven[] = {kNotFound, "limit", "fleet_size", "slo_rule",
                                          "percentile"};

// So many that two numbers that are nearly one can be told apart.
int digits_for(double have, double need) {
  constexpr int kUsual = 6, kMany = 9;
  const double apart = std::abs(have - need);
  return apart > 0 && apart < 1e-4 * std::abs(need) ? kMany : kUsual;
}

}  // namespace

bool proven(const std::vector<Reason>& reasons) {
  return std::ranges::any_of(reasons, [](const Reason& reason) {
    return std::ranges::find(kUnproven, reason.constraint) == std::end(kUnproven);
  });
}

std::string to_string(const Reason& reason) {
  std::string text = fmt::format("{}: {}", reason.subject, reason.constraint);
  // Constraints that compare nothing (unknown_service) leave both at zero.
  if (reason.have != 0 || reason.need != 0)
    text += fmt::format(": have {0:.{2}g}, need {1:.{2}g}", reason.have, reason.need,
                        digits_for(reason.have, reason.need));
  if (!reason.detail.empty()) text += fmt::format(" ({})", reason.detail);
  return text;
}

}  // namespace partita::plan
