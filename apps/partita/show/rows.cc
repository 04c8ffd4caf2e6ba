#include "show/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/append.h"
#include "base/document.h"
#include "base/nearest.h"
#include "base/table.h"
#include "base/unicode.h"
#include "settings.h"

namespace partita::cli {
namespace {

struct Cell {
  std::string column, value;
};

bool is_rows(const Node& value) {
  return value.kind == Node::Kind::list && !value.items.empty() &&
         std::ranges::all_of(value.items,
                             [](const Node& one) { return one.kind == Node::Kind::object; });
}

// The values of an object; lists of objects in it are counted, other lists joined.
void cells_of(const Node& object, const std::string& prefix, std::vector<Cell>& cells) {
  for (const Node::Member& member : object.members) {
    const std::string name = prefix + member.key;
    if (member.value.kind == Node::Kind::object) {
      cells_of(member.value, name + ".", cells);
    } else if (is_rows(member.value)) {
      cells.push_back({name, fmt::format("{}", member.value.items.size())});
    } else if (member.value.kind == Node::Kind::list) {
      std::vector<std::string> words;
      for (const Node& one : member.value.items) words.push_back(scalar_text(one));
      cells.push_back({name, joined(words, " ")});
    } else {
      cells.push_back({name, scalar_text(member.value)});
    }
  }
}

Table table_of(const Node& list) {
  Table table;
  std::vector<std::vector<Cell>> rows;
  for (const Node& item : list.items) {
    cells_of(item, "", rows.emplace_back());
    for (const Cell& cell : rows.back())
      if (std::ranges::find(table.header, cell.column) == table.header.end())
        table.header.push_back(cell.column);
  }
  for (const std::vector<Cell>& row : rows) {
    std::vector<std::string>& line = table.rows.emplace_back(table.header.size());
    for (const Cell& cell : row) {
      const auto column = std::ranges::find(table.header, cell.column) - table.header.begin();
      line[static_cast<std::size_t>(column)] = cell.value;
    }
  }
  return table;
}

// The first words of long texts: a table is looked at, and CSV and JSON have all.
Table narrowed(Table table) {
  constexpr int kWidest = 48;
  for (std::vector<std::string>& row : table.rows)
    for (std::string& cell : row)
      if (columns(cell) > kWidest) cell = elided(cell, kWidest, [](char32_t) { return 1.0; });
  return table;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != cells.data()) line += ',';
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char c : cell) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line + "\n";
}

}  // namespace

Result<std::string> document_text(const std::string& file, std::string_view json) {
  const auto document = TRY(parse_document(file, json));
  std::vector<Cell> cells;
  cells_of(document.root, "", cells);
  std::string text;
  for (const Cell& cell : cells) {
    const Node* list = document.root.find(cell.column);
    if (list == nullptr || !is_rows(*list))
      text += fmt::format("{}: {}\n", cell.column, cell.value);
  }
  for (const Node::Member& member : document.root.members)
    if (is_rows(member.value))
      text += fmt::format("\n{}\n{}", member.key, to_string(narrowed(table_of(member.value))));
  return text;
}

Result<std::string> document_csv(const std::string& file, std::string_view json,
                                 std::string_view key) {
  const auto document = TRY(parse_document(file, json));
  std::vector<std::string> lists;
  for (const Node::Member& member : document.root.members) {
    if (!is_rows(member.value)) continue;
    lists.push_back(member.key);
    if (!key.empty() && member.key != key) continue;
    const Table table = table_of(member.value);
    std::string text = csv_line(table.header);
    for (const std::vector<std::string>& row : table.rows) text += csv_line(row);
    return text;
  }
  if (lists.empty()) return bad_input(file, "there is no list of rows in it");
  return bad_input("--rows",
                   fmt::format("there is no list '{}'{} (there are {})", key,
                               did_you_mean(std::string(key), lists), joined(lists, ", ")));
}

Result<std::string> document_as(const Output& output, std::string json) {
  return output.format == "csv" ? document_csv("the result", json) : Result<std::string>(json);
}

}  // namespace partita::cli
