// Text as one word for a shell, in single quotes, whatever is in it.
#pragma once

#include <string>
#include <string_view>

namespace partita {

inline std::string quoted_for_shell(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The same; what a shell takes as it is has no quotes.
inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%+-";
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == text.npos;
  return plain ? std::string(text) : quoted_for_shell(text);
}

}  // namespace partita
