// Secrets compared in a time that tells nothing but the length of what was sent.
#pragma once

#include <string_view>

namespace partita::serve {

bool equal_in_constant_time(std::string_view secret, std::string_view candidate);

// What follows "Bearer " in an Authorization header, whatever its case; no data() without.
std::string_view bearer_of(std::string_view authorization);

}  // namespace partita::serve
