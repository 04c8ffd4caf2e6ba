// Times of day in files and flags.
#pragma once

#include <optional>
#include <string_view>

namespace partita::forms {

// "08:00" as the minute 480; from 0:00 to 23:59.
std::optional<int> minute_of(std::string_view text);

}  // namespace partita::forms
