#include "drivers/mps/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita::drivers::mps {
namespace {

constexpr std::size_t kShownBytes = 160;

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  constexpr std::string_view kBlank = " \t\r";
  while (true) {
    const std::size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return found;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlank), line.size());
    found.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::vector<std::vector<std::string_view>> lines_of_words(std::string_view text) {
  std::vector<std::vector<std::string_view>> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto line = words(text.substr(0, end)); !line.empty()) lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

tl::unexpected<Error> unlike(std::string_view what, std::string_view answer) {
  std::string shown = utf8(printable(answer.substr(0, kShownBytes)));
  return environment_error("nvidia-cuda-mps-control",
                           fmt::format("no {} in its answer '{}'", what, shown));
}

}  // namespace

Result<std::vector<Pid>> parse_pids(std::string_view answer) {
  std::vector<Pid> pids;
  for (const auto& line : lines_of_words(answer.substr(0, kMaxAnswerBytes))) {
    for (const std::string_view word : line) {
      const std::optional<Pid> pid = parse_number<Pid>(word);
      if (!pid || *pid <= 0) return unlike("process numbers", answer);
      pids.push_back(*pid);
    }
  }
  return pids;
}

Result<double> parse_percentage(std::string_view answer) {
  const auto lines = lines_of_words(answer.substr(0, kMaxAnswerBytes));
  if (lines.empty()) return unlike("percentage", answer);
  std::string_view word = lines.back().back();
  if (word.ends_with('%')) word.remove_suffix(1);
  const std::optional<double> value = parse_number<double>(word);
  if (!value || !(*value >= 0 && *value <= 100)) return unlike("percentage", answer);
  return *value;
}

bool lists_partitions(std::string_view answer) {
  const auto lines = lines_of_words(answer.substr(0, kMaxAnswerBytes));
  return !lines.empty() && lines[0].size() >= 2 && lines[0][0] == "GPU";
}

}  // namespace partita::drivers::mps
