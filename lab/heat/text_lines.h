// HotSpot's files as words that know their line. What begins with # is a comment; blank lines are
// left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::thermal {

struct WordLine {
  int line = 0;                         // 1-based
  std::vector<std::string_view> words;  // at least one; they live as long as the text
};

inline constexpr std::size_t kMostWords = 50'000'000;

// Refused: control bytes, and more than kMostWords words.
Result<std::vector<WordLine>> word_lines(const std::string& file, std::string_view text);

// "FILE:LINE".
std::string place(const std::string& file, int line);

// A word as a number in [least, most]. `what` names it in refusals; `hint` says what is often
// meant by what lies outside, or nothing.
struct NumberWanted {
  const char* what = "";
  double least = 0, most = 0;
  const char* hint = "";
};
Result<double> number_at(const std::string& where, std::string_view word,
                         const NumberWanted& wanted);

}  // namespace partita::thermal
