#include "plan/reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace partita::plan {

namespace {

// So many that two numbers that are nearly one can be told apart.
int digits_for(double have, double need) {
  constexpr int kUsual = 6, kMany = 9;
  const double apart = std::abs(have - need);
  return apart > 0 && apart < 1e-4 * std::abs(need) ? kMany : kUsual;
}

}  // namespace

bool proven(const std::vector<Reason>& reasons) {
  return std::any_of(reasons.begin(), reasons.end(),
                     [](const Reason& reason) { return reason.constraint != kNotFound; });
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
