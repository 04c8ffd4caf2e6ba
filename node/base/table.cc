#include "base/table.h"

#include <algorithm>

#include "base/split.h"
#include "base/unicode.h"

namespace partita {
namespace {

bool numeric_cell(const std::string& cell) {
  return cell == "none" || cell.find_first_not_of("0123456789.+-% ") == std::string::npos;
}

void append_table_cell(std::string& line, const std::string& cell, int width,
                       bool right) {
  const std::string padding(static_cast<std::size_t>(std::max(0, width - columns(cell))), ' ');
  line += right ? padding + cell : cell + padding;
  line += "  ";
}

}  // namespace

std::vector<std::string> cells(std::string_view form, fmt::format_args values) {
  std::vector<std::string> row;
  int field = 0;  // which each cell names, since all of them have all values
  for (const std::string& piece : split(form, '|')) {
    std::string numbered;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      numbered += piece[i];
      if (piece[i] != '{') continue;
      if (i + 1 < piece.size() && piece[i + 1] == '{')
        numbered += piece[++i];
      else
        numbered += std::to_string(field++);
    }
    row.push_back(fmt::vformat(numbered, values));
  }
  return row;
}

Table headed(std::string_view header) { return {split(header, '|')}; }

std::string to_string(const Table& table) {
  std::vector<int> widths;
  std::vector<bool> right;
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    int widest = columns(table.header[c]);
    bool numeric = true;
    for (const auto& row : table.rows) {
      widest = std::max(widest, columns(row[c]));
      numeric = numeric && numeric_cell(row[c]);
    }
    widths.push_back(widest);
    right.push_back(numeric);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      append_table_cell(line, row[c], widths[c], right[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add(table.header);
  for (const auto& row : table.rows) add(row);
  return text;
}

}  // namespace partita
