// Base64 of RFC 4648, with padding and without line breaks. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace partita {

std::string base64(std::string_view bytes);
// Nothing: it is none; bits beyond the last byte must be 0.
std::optional<std::string> parse_base64(std::string_view text);

}  // namespace partita
