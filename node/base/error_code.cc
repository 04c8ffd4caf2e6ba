#include "base/error_code.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace partita {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 14> kWords{
    "infeasible", "bad_input",     "environment",      "limit",   "no_driver", "denied",
    "not_found",  "not_supported", "invalid_argument", "no_room", "in_use",    "reset_required",
    "lost",       "timeout"};
static_assert(kWords.size() == static_cast<std::size_t>(ErrorCode::timeout) + 1);

}  // namespace

std::string to_string(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  CHECK(index < kWords.size());
  return std::string(kWords[index]);
}

std::optional<ErrorCode> parse_error_code(std::string_view word) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<ErrorCode>(found - kWords.begin());
}

std::vector<std::string> error_code_words() { return {kWords.begin(), kWords.end()}; }

}  // namespace partita
