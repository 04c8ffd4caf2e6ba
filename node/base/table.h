// Table: rows of text in aligned columns, for people. Columns whose every cell is a number, a dash,
// "none" or empty are aligned right. Widths are terminal columns.
#pragma once

#include <string>
#include <vector>

namespace partita {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
};

// The table, every line ending in a newline, columns two spaces apart.
std::string to_string(const Table& table);

}  // namespace partita
