#include "queue/slurm/host_list.h"

#include <fmt/format.h>

#include "base/parse_number.h"
#include "base/split.h"

namespace partita::slurm {
namespace {

constexpr long kMostNumber = 1'000'000'000;

tl::unexpected<Error> bad_list(std::string_view text, const char* why) {
  return bad_input("", fmt::format("'{}': {}", text, why));
}

// "a-b", "a-b:step" or "a".
struct NumberRange {
  long first = 0, last = 0, step = 1;
  std::size_t width = 0;  // digits, where it is written with leading zeros
};

Result<NumberRange> number_range(std::string_view text) {
  NumberRange range;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto step = parse_number<long>(text.substr(colon + 1));
    if (!step || *step < 1 || *step > kMostNumber) return bad_list(text, "no step");
    range.step = *step;
    text = text.substr(0, colon);
  }
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  const auto from = parse_number<long>(first), to = parse_number<long>(last);
  if (!from || !to || *from < 0 || *to < *from || *to > kMostNumber)
    return bad_list(text, "no range of numbers");
  range.first = *from;
  range.last = *to;
  if (first.size() > 1 && first.front() == '0') range.width = first.size();
  return range;
}

// The parts between commas outside of brackets.
std::vector<std::string> outer_parts(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Result<void> add_hosts(std::vector<std::string>& names, std::string_view part) {
  const std::size_t open = part.find('['), close = part.find(']');
  if (open == std::string_view::npos && close == std::string_view::npos) {
    if (part.empty()) return bad_list(part, "an empty name");
    names.emplace_back(part);
    return {};
  }
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      part.find('[', open + 1) != std::string_view::npos ||
      part.find(']', close + 1) != std::string_view::npos)
    return bad_list(part, "brackets that do not fit");
  for (const std::string& one : split(part.substr(open + 1, close - open - 1), ',')) {
    const auto range = TRY(number_range(one));
    for (long n = range.first; n <= range.last; n += range.step) {
      if (names.size() >= kMaxHosts) return bad_list(part, "too many names");
      names.push_back(
          fmt::format("{}{:0{}}{}", part.substr(0, open), n, range.width, part.substr(close + 1)));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> host_names(std::string_view text) {
  std::vector<std::string> names;
  if (text.empty() || text == "(null)") return names;
  for (const std::string& part : outer_parts(text)) {
    TRY(add_hosts(names, part));
    if (names.size() > kMaxHosts) return bad_list(text.substr(0, 40), "too many names");
  }
  return names;
}

Result<ArrayTasks> array_tasks(std::string_view text) {
  ArrayTasks all;
  const std::size_t percent = text.find('%');
  if (percent != std::string_view::npos) {
    const auto most = parse_number<int>(text.substr(percent + 1));
    if (!most || *most < 0) return bad_list(text, "no limit behind %");
    all.most = *most;
    text = text.substr(0, percent);
  }
  for (const std::string& part : split(text, ',')) {
    const auto range = TRY(number_range(part));
    for (long n = range.first; n <= range.last; n += range.step) {
      if (all.tasks.size() >= kMaxArrayTasks) return bad_list(text.substr(0, 40), "too many tasks");
      all.tasks.push_back(static_cast<int>(n));
    }
  }
  return all;
}

}  // namespace partita::slurm
