// The parts of a text between separators; empty parts are kept, so that callers can refuse them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace partita {

inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace partita
