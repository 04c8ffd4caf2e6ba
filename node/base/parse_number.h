// Numbers in texts, the one way: decimal or of another base, without '+' or blanks, whatever the
// locale. What is too large for the type is no number.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace partita {

// The number that all of `text` is; nothing for any other text. Number: int, long, std::uint64_t
// or double.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10);

// The number that `text` begins with, taken off it; nothing, and the text as it was, where there is
// none.
template <class Number>
std::optional<Number> take_number(std::string_view& text);

}  // namespace partita
