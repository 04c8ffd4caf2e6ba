#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "base/parse_number.h"
#include "base/unicode.h"
#include "forms/traffic_forms.h"
#include "profile/csv.h"

namespace partita::forms {
namespace {

using plan::TrafficTrace;
using Cells = std::vector<std::string>;

// The lines of a CSV one by one: a file of a day has a thousand columns and tens of thousands of
// rows, of which one is wanted.
class TraceLines {
 public:
  TraceLines(const std::string& file, std::string_view text) : file_(file), rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }
  // Goes to the next line that is not blank; false at the end.
  bool next() {
    while (!rest_.empty()) {
      line_ = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(line_.size() + 1, rest_.size()));
      ++number_;
      if (line_.ends_with('\r')) line_.remove_suffix(1);
      if (line_.find_first_not_of(" \t") != line_.npos) return true;
    }
    return false;
  }
  Result<Cells> cells() const {
    Result<Cells> cells = profile::csv_cells(line_);
    return cells ? std::move(cells) : bad_input(at(), cells.error().message);
  }
  std::string_view line() const { return line_; }
  std::string at() const { return fmt::format("{}:{}", file_, std::max(number_, 1)); }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::string_view rest_, line_;
  int number_ = 0;
};

std::string quoted_cell(std::string_view cell) {
  constexpr std::size_t kShown = 40;
  return fmt::format("'{}'", utf8(printable(cell.substr(0, kShown))));
}

// Days since 1970-01-01 of a date of the Gregorian calendar (H. Hinnant, days_from_civil).
long days_of(int year, int month, int day) {
  const int y = month <= 2 ? year - 1 : year;
  const int era = y / 400, of_era = y % 400;
  const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097L + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// "2023-11-16 18:17:03.98", with a T for the blank and a zone of UTC at most.
std::optional<double> date_seconds(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  if (text.ends_with('Z')) text.remove_suffix(1);
  if (text.ends_with("+00:00")) text.remove_suffix(6);
  if (text.size() < kShape.size()) return {};
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    const bool fits =
        kShape[i] == 'd' ? digit : text[i] == kShape[i] || (i == 10 && text[i] == 'T');
    if (!fits) return {};
  }
  const auto whole = [&](std::size_t at, std::size_t size) {
    return parse_number<int>(text.substr(at, size)).value_or(-1);
  };
  const int month = whole(5, 2), day = whole(8, 2);
  const int hour = whole(11, 2), minute = whole(14, 2), second = whole(17, 2);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60)
    return {};
  double fraction = 0;
  if (const std::string_view rest = text.substr(kShape.size()); !rest.empty()) {
    if (rest[0] != '.' || rest.find_first_not_of("0123456789", 1) != rest.npos) return {};
    const auto value = parse_number<double>("0" + std::string(rest));
    if (!value) return {};
    fraction = *value;
  }
  constexpr double kDay = 86400, kHour = 3600, kMinute = 60;
  return static_cast<double>(days_of(whole(0, 4), month, day)) * kDay + hour * kHour +
         minute * kMinute + second + fraction;
}

int column_of(const Cells& header, std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < header.size(); ++i)
    if (std::ranges::count(names, lower_case(header[i])) > 0) return static_cast<int>(i);
  return -1;
}

// Per minute its column: 1, 2, 3, ... as they are named, without a gap. Empty: there are none.
std::vector<std::size_t> minute_columns(const Cells& header) {
  std::vector<std::size_t> columns(header.size(), header.size());
  for (std::size_t i = 0; i < header.size(); ++i) {
    const auto minute = parse_number<int>(header[i]);
    if (minute && *minute >= 1 && *minute <= static_cast<int>(header.size()))
      columns[static_cast<std::size_t>(*minute) - 1] = i;
  }
  columns.erase(std::ranges::find(columns, header.size()), columns.end());
  return columns;
}

Error unnamed_rows(const TraceLines& lines, const TraceRows& rows) {
  return {ErrorCode::bad_input,
          fmt::format("no row is named {}; a trace is {{file: FILE, row: NAME}} when its row has "
                      "another name than its service",
                      quoted_cell(rows.name)),
          lines.file() + ":1"};
}

Result<Cells> wide_cells(const TraceLines& lines, std::size_t columns) {
  Result<Cells> cells = lines.cells();
  if (cells && cells->size() != columns)
    return bad_input(lines.at(),
                     fmt::format("{} cells, the header has {}", cells->size(), columns));
  return cells;
}

Result<TrafficTrace> counts_of(const Cells& cells, const std::vector<std::size_t>& minutes,
                               const std::string& at) {
  TrafficTrace trace;
  bool any = false;
  for (std::size_t m = 0; m < minutes.size(); ++m) {
    const auto count = parse_number<double>(cells[minutes[m]]);
    if (!count || !(*count >= 0 && *count <= kMaxPerMinute))
      return bad_input(at, fmt::format("minute {}: {} is no number of requests", m + 1,
                                       quoted_cell(cells[minutes[m]])));
    trace.per_minute.push_back(*count);
    any = any || *count > 0;
  }
  if (!any) return bad_input(at, "the row has no request in any minute");
  return trace;
}

bool is_named(const Cells& cells, const std::vector<std::size_t>& minutes,
              const std::string& name) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i] == name && std::ranges::count(minutes, i) == 0) return true;
  return false;
}

Result<TrafficTrace> read_counts(TraceLines lines, const Cells& header, const TraceRows& rows) {
  const std::vector<std::size_t> minutes = minute_columns(header);
  std::optional<Result<TrafficTrace>> only;
  long count = 0;
  while (lines.next()) {
    const bool candidate = lines.line().find(rows.name) != std::string_view::npos;
    if (++count > 1 && !candidate) continue;
    const Cells cells = TRY(wide_cells(lines, header.size()));
    if (candidate && is_named(cells, minutes, rows.name))
      return counts_of(cells, minutes, lines.at());
    if (count == 1) only = counts_of(cells, minutes, lines.at());
  }
  if (count == 0) return bad_input(lines.at(), "there is no row under the header");
  if (rows.required || count > 1) return failed(unnamed_rows(lines, rows));
  return *std::move(only);
}

// One time, as seconds or as a date, but not one row so and the next so.
Result<double> trace_time(const std::string& cell, bool dates, const std::string& at) {
  const auto value = dates ? date_seconds(cell) : parse_number<double>(cell);
  if (!value || !std::isfinite(*value) || (!dates && !(*value >= 0 && *value <= kMaxTraceSpan)))
    return bad_input(at, fmt::format("{} is no time: seconds from 0 to {:g}, or dates such as "
                                     "2023-11-16 18:17:03.98",
                                     quoted_cell(cell), kMaxTraceSpan));
  return *value;
}

struct TraceColumns {
  std::size_t width = 0, time = 0;
  int service = -1;
};

// The times of all rows that are not left out, ascending.
Result<TrafficTrace> read_times(TraceLines lines, const TraceColumns& columns,
                                const std::string& only) {
  TrafficTrace trace;
  std::optional<double> first;
  bool dates = false;
  while (lines.next()) {
    const Cells cells = TRY(wide_cells(lines, columns.width));
    if (!only.empty() && cells[static_cast<std::size_t>(columns.service)] != only) continue;
    const std::string& cell = cells[columns.time];
    if (!first) dates = cell.find(':') != cell.npos;
    const double time = TRY(trace_time(cell, dates, lines.at()));
    if (!first) first = dates ? time : 0;
    const double at = time - *first;
    if (!trace.times_s.empty() && at < trace.times_s.back())
      return bad_input(lines.at(), fmt::format("{} is before the row above it; times must ascend",
                                               quoted_cell(cell)));
    if (at > kMaxTraceSpan || trace.times_s.size() == kMaxTraceTimes)
      return bad_input(lines.at(), fmt::format("a trace has at most {} times within {:g} s",
                                               kMaxTraceTimes, kMaxTraceSpan));
    trace.times_s.push_back(at);
  }
  return trace;
}

// The services of a trace of times; empty without such a column.
Result<std::set<std::string>> services_of(TraceLines lines, const TraceColumns& columns) {
  std::set<std::string> services;
  while (columns.service >= 0 && lines.next()) {
    Cells cells = TRY(wide_cells(lines, columns.width));
    services.insert(std::move(cells[static_cast<std::size_t>(columns.service)]));
  }
  return services;
}

Result<TrafficTrace> read_some_times(const TraceLines& lines, const TraceColumns& columns,
                                     const TraceRows& rows) {
  const auto services = TRY(services_of(lines, columns));
  const bool named = services.contains(rows.name);
  if (!named && (rows.required || services.size() > 1)) return failed(unnamed_rows(lines, rows));
  auto trace = TRY(read_times(lines, columns, named ? rows.name : ""));
  const std::vector<double>& times = trace.times_s;
  if (times.size() < 2 || !(times.back() > times.front()))
    return bad_input(lines.file() + ":1", "a trace needs at least two times that differ");
  return trace;
}

}  // namespace

Result<TrafficTrace> parse_traffic_trace(const std::string& file, std::string_view text,
                                         const TraceRows& rows) {
  TraceLines lines(file, text);
  if (!lines.next()) return bad_input(file + ":1", "the file is empty");
  const Cells header = TRY(lines.cells());
  const int time = column_of(header, {"at_s", "time_s", "timestamp", "time"});
  if (time >= 0)
    return read_some_times(
        lines, {header.size(), static_cast<std::size_t>(time), column_of(header, {"service"})},
        rows);
  if (!minute_columns(header).empty()) return read_counts(lines, header, rows);
  return bad_input(lines.at(),
                   "a trace has a column of times, at_s, time_s or timestamp, or a column for each "
                   "minute: 1, 2, 3, ...");
}

}  // namespace partita::forms
