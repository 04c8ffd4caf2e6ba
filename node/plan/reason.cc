#include "plan/reason.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::plan {

bool proven(const std::vector<Reason>& reasons) {
  return std::any_of(reasons.begin(), reasons.end(),
                     [](const Reason& reason) { return reason.constraint != kNotFound; });
}

std::string to_string(const Reason& reason) {
  std::string text = fmt::format("{}: {}", reason.subject, reason.constraint);
  // Constraints that compare nothing (unknown_service) leave both at zero.
  if (reason.have != 0 || reason.need != 0)
    text += fmt::format(": have {:.6g}, need {:.6g}", reason.have, reason.need);
  if (!reason.detail.empty()) text += fmt::format(" ({})", reason.detail);
  return text;
}

}  // namespace partita::plan
