// Table: rows of text in aligned columns, for people. Columns whose every cell is a number, a dash,
// "none" or empty are aligned right. Widths are terminal columns.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partita {

// The cells that a format gives, with a bar between two of them: "{}|{:.1f} ms|-". What is filled
// in may have bars; nested fields ({:{}}) and fields with a number are not for it.
std::vector<std::string> cells(std::string_view form, fmt::format_args values);

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows = {};  // each as long as the header

  template <class... T>
  void add(fmt::format_string<T...> form, T&&... values) {
    const fmt::string_view text = form;
    rows.push_back(cells({text.data(), text.size()}, fmt::make_format_args(values...)));
  }
};

// A table without rows: "NAME|ms".
Table headed(std::string_view header);

// The table, every line ending in a newline, columns two spaces apart.
std::string to_string(const Table& table);

}  // namespace partita
