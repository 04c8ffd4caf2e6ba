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

std::optional<int> count(std::string_view word) {
  constexpr int kMaxCount = 1'000'000;
  const std::optional<int> value = parse_number<int>(word);
  return value && *value >= 0 && *value <= kMaxCount ? value : std::nullopt;
}

// Reads the table of lspart line by line.
class TableReader {
 public:
  // One line, columns that hold "-" left out. False when it is not one of the table's.
  bool add(const std::vector<std::string_view>& columns) {
    if (columns.size() != 5) return false;
    const std::optional<int> third = count(columns[2]), fourth = count(columns[3]);
    if (!third || !fourth) return false;
    if (columns[4] == "Yes" || columns[4] == "No") {
      table_.partitions.push_back({std::string(columns[1]), *third, *fourth, columns[4] == "Yes"});
      return true;
    }
    const std::optional<int> second = count(columns[1]), fifth = count(columns[4]);
    if (!second || !fifth) return false;
    table_.free_chunks += *second;
    table_.used_chunks += *third;
    table_.free_sms += *fourth;
    table_.used_sms += *fifth;
    return true;
  }
  const SmTable& table() const { return table_; }

 private:
  SmTable table_;
};

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

Result<Mib> parse_memory(std::string_view answer) {
  const auto lines = lines_of_words(answer.substr(0, kMaxAnswerBytes));
  if (lines.empty()) return unlike("amount of memory", answer);
  std::string joined;
  for (const std::string_view word : lines.back()) joined += word;
  const std::size_t digits = std::min(joined.find_first_not_of("0123456789"), joined.size());
  const std::string_view unit = std::string_view(joined).substr(digits);
  const std::optional<Pid> value = parse_number<Pid>(std::string_view(joined).substr(0, digits));
  const bool gib = unit == "G" || unit == "GB", mib = unit == "M" || unit == "MB";
  if (!value || (!gib && !mib)) return unlike("amount of memory", answer);
  return Mib{static_cast<double>(*value) * (gib ? 1024 : 1)};
}

Result<SmTable> parse_lspart(std::string_view answer) {
  TableReader reader;
  bool headed = false;
  for (auto& line : lines_of_words(answer.substr(0, kMaxAnswerBytes))) {
    std::erase(line, "-");
    const bool heading = line.size() >= 2 && (line[0] == "GPU" || line[0].starts_with("chunk"));
    headed = headed || heading;
    if (!heading && !reader.add(line)) return unlike("table of SM partitions", answer);
  }
  if (!headed) return unlike("table of SM partitions", answer);
  return reader.table();
}

Result<std::string> parse_new_partition(std::string_view answer, std::string_view device) {
  const std::string start = std::string(device) + "/";
  for (const auto& line : lines_of_words(answer.substr(0, kMaxAnswerBytes))) {
    for (const std::string_view word : line)
      if (word.starts_with(start) && word.size() > start.size()) return std::string(word);
  }
  return unlike("SM partition", answer);
}

}  // namespace partita::drivers::mps
