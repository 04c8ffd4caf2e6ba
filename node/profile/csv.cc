#include "profile/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/unicode.h"
#include "base/words.h"

namespace partita::profile {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string place(const std::string& file, int line) { return fmt::format("{}:{}", file, line); }

// A cell shortened for messages.
std::string shown(std::string_view cell) {
  constexpr std::size_t kShown = 40;
  return cell.size() <= kShown ? std::string(cell) : std::string(cell.substr(0, kShown)) + "...";
}

// Why a line is not text, or empty.
std::string_view not_text(std::string_view line) {
  const auto plain = [](char c) { return (c >= 0x20 && c < 0x7F) || c == '\t'; };
  if (std::all_of(line.begin(), line.end(), plain)) return {};
  while (!line.empty()) {
    const Decoded next = decode(line);
    if (!next.valid()) return "invalid UTF-8";
    if ((next.c < 0x20 && next.c != '\t') || next.c == 0x7F) return "control byte: not a text file";
    line.remove_prefix(next.bytes);
  }
  return {};
}

// The cells of a line without quotes.
std::vector<std::string> plain_cells(std::string_view line, std::size_t count) {
  std::vector<std::string> cells;
  cells.reserve(count);
  while (cells.size() + 1 < count) {
    const std::string_view cell = line.substr(0, line.find(','));
    cells.emplace_back(trimmed(cell));
    line.remove_prefix(cell.size() + 1);
  }
  cells.emplace_back(trimmed(line));
  return cells;
}

// Cuts the front cell off `rest`, with the comma behind it.
Result<std::string> take_cell(std::string_view& rest) {
  const std::size_t first = rest.find_first_not_of(" \t");
  if (first == std::string_view::npos || rest[first] != '"') {
    const std::string_view cell = rest.substr(0, rest.find(','));
    rest.remove_prefix(cell.size());
    if (cell.find('"') != std::string_view::npos) return bad_input("", "quote inside a cell");
    return std::string(trimmed(cell));
  }
  rest.remove_prefix(first + 1);
  std::string cell;
  for (;;) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) return bad_input("", "unterminated quote");
    cell += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) break;
    cell += '"';
    rest.remove_prefix(1);
  }
  const std::string_view behind = trimmed(rest.substr(0, rest.find(',')));
  if (!behind.empty()) return bad_input("", "text after a closing quote");
  rest.remove_prefix(std::min(rest.find(','), rest.size()));
  return cell;
}

}  // namespace

Result<std::vector<std::string>> csv_cells(std::string_view line) {
  if (const std::string_view reason = not_text(line); !reason.empty()) {
    return bad_input("", std::string(reason));
  }
  const std::size_t most = 1 + static_cast<std::size_t>(std::ranges::count(line, ','));
  if (most <= kMaxCsvColumns && line.find('"') == std::string_view::npos)
    return plain_cells(line, most);
  std::vector<std::string> cells;
  for (;;) {
    std::string cell = TRY(take_cell(line));
    cells.push_back(std::move(cell));
    if (line.empty()) return cells;
    line.remove_prefix(1);
    if (cells.size() == kMaxCsvColumns) return bad_input("", "too many columns");
  }
}

namespace {

Result<void> check_header(const Csv& csv) {
  std::set<std::string_view> seen;
  for (const std::string& name : csv.header.cells) {
    if (!seen.insert(name).second) {
      return bad_input(csv.at(csv.header), fmt::format("column '{}' appears twice", shown(name)));
    }
  }
  return {};
}

// Puts a line in its place in `csv`: the header first, then rows of the header's width.
Result<void> add_line(Csv& csv, std::string_view text, int line) {
  Result<std::vector<std::string>> cells = csv_cells(text);
  if (!cells) return bad_input(place(csv.file, line), cells.error().message);
  if (csv.header.line == 0) {
    csv.header = CsvRow{line, std::move(*cells)};
    return check_header(csv);
  }
  if (cells->size() != csv.header.cells.size()) {
    return bad_input(place(csv.file, line), fmt::format("{} cells, the header has {}",
                                                        cells->size(), csv.header.cells.size()));
  }
  if (csv.rows.size() == kMaxCsvRows) {
    return bad_input(place(csv.file, line), fmt::format("more than {} rows", kMaxCsvRows));
  }
  csv.rows.push_back(CsvRow{line, std::move(*cells)});
  return {};
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class T>
Result<T> cell_value(const Csv& csv, const CsvRow& row, int column, NumberRange range) {
  const std::string& name = csv.header.cells[static_cast<std::size_t>(column)];
  const std::string& cell = row.cells[static_cast<std::size_t>(column)];
  const auto refuse = [&](std::string_view reason) {
    return bad_input(csv.at(row), fmt::format("{} '{}' {}", name, shown(cell), reason));
  };
  T value{};
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty()) return refuse("is empty");
  if (error == std::errc::result_out_of_range) return refuse("is out of range");
  if (error != std::errc() || end != cell.data() + cell.size()) {
    return refuse(std::is_integral_v<T> ? "is not a whole number" : "is not a number");
  }
  const double number = static_cast<double>(value);
  if (!std::isfinite(number)) return refuse("is not finite");
  if (number < range.min || number > range.max) {
    return refuse(fmt::format("is outside {}..{}", range.min, range.max));
  }
  return value;
}

}  // namespace

std::string Csv::at(const CsvRow& row) const { return place(file, row.line); }

int Csv::column(std::string_view name) const {
  const auto found = std::find(header.cells.begin(), header.cells.end(), name);
  return found == header.cells.end() ? -1 : static_cast<int>(found - header.cells.begin());
}

Result<Csv> parse_csv(const std::string& file, std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Csv csv;
  csv.file = file;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (trimmed(row).empty()) continue;
    if (Result<void> added = add_line(csv, row, line); !added) return failed(added.error());
  }
  if (csv.header.line == 0) return bad_input(place(file, 1), "empty file");
  if (csv.rows.empty()) return bad_input(csv.at(csv.header), "no rows below the header");
  return csv;
}

Result<void> require_columns(const Csv& csv, const std::vector<std::string_view>& required,
                             const std::vector<std::string_view>& optional) {
  for (const std::string_view name : required) {
    if (csv.column(name) < 0) {
      return bad_input(csv.at(csv.header), fmt::format("column '{}' is missing", name));
    }
  }
  for (const std::string& name : csv.header.cells) {
    if (!contains(required, name) && !contains(optional, name)) {
      return bad_input(csv.at(csv.header), fmt::format("unknown column '{}'", shown(name)));
    }
  }
  return {};
}

Result<double> csv_number(const Csv& csv, const CsvRow& row, int column, NumberRange range) {
  return cell_value<double>(csv, row, column, range);
}

Result<int> csv_integer(const Csv& csv, const CsvRow& row, int column, NumberRange range) {
  return cell_value<int>(csv, row, column, range);
}

std::string csv_cell(const std::string& text) {
  const bool quoted = text.find_first_of(",\"") != std::string::npos ||
                      trimmed(text).size() != text.size() || text.starts_with(kByteOrderMark);
  if (!quoted) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

}  // namespace partita::profile
