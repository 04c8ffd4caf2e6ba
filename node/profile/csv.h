// Comma-separated text as rows of cells that know their line, so that readers can refuse bad input
// with FILE:LINE. Accepts a byte order mark, CRLF, blank lines and "quoted, cells" ("" is a quote)
// on one line. Refuses empty text, invalid UTF-8, control bytes, unterminated quotes, repeated
// column names and rows of another width than the header. Limits: kMaxCsvRows rows, kMaxCsvColumns
// columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::profile {

inline constexpr std::size_t kMaxCsvRows = 5'000'000;
inline constexpr std::size_t kMaxCsvColumns = 4096;

struct CsvRow {
  int line = 0;                    // 1-based
  std::vector<std::string> cells;  // as many as Csv::header
};

struct Csv {
  std::string file;  // for messages
  CsvRow header;
  std::vector<CsvRow> rows;  // at least one

  // "FILE:LINE" of a row.
  std::string at(const CsvRow& row) const;
  // Index of the column with this name, or -1.
  int column(std::string_view name) const;
};

// The whole text, header first. Spaces around cells without quotes are dropped.
Result<Csv> parse_csv(const std::string& file, std::string_view text);

// The cells of one line without its end, for readers that go line by line; the refusal has no
// context.
Result<std::vector<std::string>> csv_cells(std::string_view line);

// bad_input that names the first of `required` that the header lacks, or the first column in
// neither list.
Result<void> require_columns(const Csv& csv, const std::vector<std::string_view>& required,
                             const std::vector<std::string_view>& optional = {});

// A cell as a finite number in [min, max]; bad_input with the column's name otherwise.
struct NumberRange {
  double min = 0;
  double max = 0;
};
Result<double> csv_number(const Csv& csv, const CsvRow& row, int column, NumberRange range);
// The same for whole numbers; "2.5" and "2.0" are refused.
Result<int> csv_integer(const Csv& csv, const CsvRow& row, int column, NumberRange range);

// A text as a cell that parse_csv reads back; quoted only when it has to be.
std::string csv_cell(const std::string& text);

}  // namespace partita::profile
