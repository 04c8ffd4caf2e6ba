#include "base/table.h"

#include <algorithm>

namespace partita {
namespace {

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool numeric_cell(const std::string& cell) {
  return cell == "none" || cell.find_first_not_of("0123456789.+-% ") == std::string::npos;
}

void append_table_cell(std::string& line, const std::string& cell, std::size_t columns,
                       bool right) {
  const std::string padding(columns - std::min(columns, code_points(cell)), ' ');
  line += right ? padding + cell : cell + padding;
  line += "  ";
}

}  // namespace

std::string to_string(const Table& table) {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    std::size_t widest = code_points(table.header[c]);
    bool numeric = true;
    for (const auto& row : table.rows) {
      widest = std::max(widest, code_points(row[c]));
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
