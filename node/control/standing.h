// Standing: the word of a verdict on a service (verdict.h), and how words and times are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/form.h"

namespace partita::control {

enum class Standing : std::uint8_t {
  serves,    // what is asked for is answered in time, and what was promised could be
  degraded,  // less is answered in time than was promised
  at_risk,   // all is well, and would not be if what was promised was asked for, or more broke
  down,      // nothing is answered in time
  unknown,   // nobody has measured it lately
};
inline constexpr Standing kStandings[] = {Standing::serves, Standing::degraded, Standing::at_risk,
                                          Standing::down, Standing::unknown};
const char* to_string(Standing standing);

// A field with one of those words.
void standing_field(Form& f, std::string_view key, Standing& standing, std::string_view about);

// "2026-11-24T03:15:00.250Z" of milliseconds since 1970; and back, nothing where it is not so.
std::string utc_text(std::int64_t ms);
std::optional<std::int64_t> parse_utc(std::string_view text);
// A field with such a time; empty: 0, never.
void time_field(Form& f, std::string_view key, std::int64_t& ms, std::string_view about);

}  // namespace partita::control
