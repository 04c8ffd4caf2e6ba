#include "queue/slurm/job_mark.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"

namespace partita::slurm {
namespace {

constexpr std::string_view kBegins = "partita ";
constexpr std::string_view kWords = " ; ";
constexpr int kMostIndex = 1'000;

bool is_plain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '.' || c == '+' || c == '-' || c == '_' || c == '*';
  });
}

// "3g.40gb*2": twice.
Result<void> add_shapes(JobMark& mark, std::string_view part) {
  const std::size_t star = part.find('*');
  const auto count = star == std::string_view::npos
                         ? std::optional<std::size_t>(1)
                         : parse_number<std::size_t>(part.substr(star + 1));
  const std::string_view shape = part.substr(0, star);
  if (!is_plain(shape) || !count || *count == 0 || mark.shapes.size() + *count > kMaxShapes)
    return bad_input("", fmt::format("'{}' is no shape", part));
  mark.shapes.insert(mark.shapes.end(), *count, std::string(shape));
  return {};
}

Result<Seat> seat_of(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point != std::string_view::npos) {
    const auto gpu = parse_number<int>(text.substr(0, point));
    const auto start = parse_number<int>(text.substr(point + 1));
    if (gpu && start && *gpu >= 0 && *start >= 0 && *gpu < kMostIndex && *start < kMostIndex)
      return Seat{*gpu, *start};
  }
  return bad_input("", fmt::format("'{}' is no GPU and start", text));
}

Result<void> read_place(JobMark& mark, std::string_view value) {
  const std::size_t colon = value.find(':');
  mark.node = value.substr(0, colon);
  if (!is_plain(mark.node) || colon == std::string_view::npos)
    return bad_input("", fmt::format("'{}' is no place", value));
  for (const std::string& part : split(value.substr(colon + 1), ',')) {
    const auto seat = TRY(seat_of(part));
    mark.seats.push_back(seat);
  }
  return {};
}

Result<void> read_word(JobMark& mark, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (key == "shapes" && mark.shapes.empty()) {
    for (const std::string& part : split(value, ',')) TRY(add_shapes(mark, part));
    return {};
  }
  if (key == "nodes" && !value.empty()) {
    mark.nodes = value;
    return {};
  }
  if (key == "begin") {
    const auto begin = parse_number<long>(value);
    if (begin && *begin > 0) {
      mark.begin = *begin;
      return {};
    }
  }
  if (key == "at" && mark.node.empty()) return read_place(mark, value);
  if (key == "refused" && is_plain(value)) {
    mark.refused = value;
    return {};
  }
  return bad_input("", fmt::format("'{}' is no part of a mark", word));
}

}  // namespace

Result<std::optional<JobMark>> parse_mark(std::string_view comment) {
  if (!comment.starts_with(kBegins)) return std::optional<JobMark>();
  JobMark mark;
  comment.remove_prefix(kBegins.size());
  const std::size_t end = comment.find(kWords);
  if (end != std::string_view::npos) mark.words = comment.substr(end + kWords.size());
  for (const std::string& word : split(comment.substr(0, end), ' ')) {
    if (word.empty()) continue;
    if (auto read = read_word(mark, word); !read) return failed(read.error());
  }
  if (mark.shapes.empty()) return bad_input("", "a mark without shapes");
  if (mark.placed() && mark.seats.size() != mark.shapes.size())
    return bad_input("", "a mark with another number of places than of shapes");
  return std::optional<JobMark>(std::move(mark));
}

std::string mark_text(const JobMark& mark) {
  std::string text = fmt::format("{}shapes={}", kBegins, joined(mark.shapes, ","));
  if (!mark.nodes.empty()) append(text, " nodes={}", mark.nodes);
  if (mark.begin > 0) append(text, " begin={}", mark.begin);
  if (!mark.refused.empty()) append(text, " refused={}", mark.refused);
  if (mark.placed()) append(text, " at={}:", mark.node);
  std::string_view between;
  for (const Seat& seat : mark.seats) {
    append(text, "{}{}.{}", between, seat.gpu, seat.start);
    between = ",";
  }
  if (!mark.words.empty()) append(text, "{}{}", kWords, mark.words);
  return text;
}

}  // namespace partita::slurm
