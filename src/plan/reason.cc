#include "plan/reason.h"

#include <fmt/format.h>

namespace partita::plan {

std::string to_string(const Reason& reason) {
  std::string text = fmt::format("{}: {}", reason.subject, reason.constraint);
  // Constraints that compare nothing (unknown_service) leave both at zero.
  if (reason.have != 0 || reason.need != 0)
    text += fmt::format(": have {:.6g}, need {:.6g}", reason.have, reason.need);
  if (!reason.detail.empty()) text += fmt::format(" ({})", reason.detail);
  return text;
}

}  // namespace partita::plan
