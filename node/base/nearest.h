// Nearest: what a person may have meant by a word that is not known. Used by every refusal that
// says "did you mean". Limit: only the first kMaxWordBytes bytes of a word are compared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace partita {

inline constexpr std::size_t kMaxWordBytes = 64;

// Levenshtein distance in bytes.
std::size_t edits(std::string_view a, std::string_view b);

// The name that is most like `word`, or empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

// "; did you mean 'x'?", or empty when no name is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

// The names, those most like `word` first, as "a, b, c and 7 more" after at most `shown`.
std::string nearest_first(std::string_view word, std::vector<std::string> names,
                          std::size_t shown = 20);

}  // namespace partita
