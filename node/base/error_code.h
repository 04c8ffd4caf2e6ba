// The words for error codes in files: "in_use", "no_room" ... as ErrorCode spells them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita {

std::string to_string(ErrorCode code);
std::optional<ErrorCode> parse_error_code(std::string_view word);
// All words, in the order of the enumeration.
std::vector<std::string> error_code_words();

}  // namespace partita
