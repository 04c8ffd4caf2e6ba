#include "heat/text_lines.h"

#include <fmt/format.h>

#include <cmath>

#include "base/parse_number.h"

namespace partita::thermal {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

std::string shortened(std::string_view word) {
  constexpr std::size_t kShown = 40;
  return word.size() <= kShown ? std::string(word) : std::string(word.substr(0, kShown)) + "...";
}

bool is_text(std::string_view line) {
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && kBlanks.find(c) == std::string_view::npos) || byte == 0x7F) return false;
  }
  return true;
}

}  // namespace

std::string place(const std::string& file, int line) { return fmt::format("{}:{}", file, line); }

Result<std::vector<WordLine>> word_lines(const std::string& file, std::string_view text) {
  std::vector<WordLine> lines;
  std::size_t words = 0;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!is_text(line)) return bad_input(place(file, number), "control byte: not a text file");
    WordLine found{number, {}};
    for (;;) {
      const std::size_t begin = line.find_first_not_of(kBlanks);
      if (begin == std::string_view::npos || line[begin] == '#') break;
      line.remove_prefix(begin);
      found.words.push_back(line.substr(0, line.find_first_of(kBlanks)));
      line.remove_prefix(found.words.back().size());
    }
    words += found.words.size();
    if (words > kMostWords) return bad_input(place(file, number), "too many words");
    if (!found.words.empty()) lines.push_back(std::move(found));
  }
  return lines;
}

Result<double> number_at(const std::string& where, std::string_view word,
                         const NumberWanted& wanted) {
  std::string_view digits = word;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::optional<double> value = parse_number<double>(digits);
  if (!value || !std::isfinite(*value))
    return bad_input(where, fmt::format("{}: '{}' is no number", wanted.what, shortened(word)));
  if (*value < wanted.least || *value > wanted.most)
    return bad_input(
        where, fmt::format("{} is {}; {} .. {} is possible{}{}", wanted.what, shortened(word),
                           wanted.least, wanted.most, *wanted.hint == 0 ? "" : "; ", wanted.hint));
  return *value;
}

}  // namespace partita::thermal
