#include "model/energy/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "base/document.h"
#include "base/fields.h"
#include "base/unicode.h"
#include "profile/csv.h"

namespace partita::energy {
namespace {

using profile::Csv;
using profile::CsvRow;

constexpr std::array<std::string_view, 4> kNames{"name", "kernel", "benchmark", "row"};

// Which column of the CSV is what; -1: none.
struct Found {
  int name = -1, joules = -1, watts = -1, time = -1, instructions = -1;
  std::vector<std::vector<int>> components;

  bool special(int column) const {
    return column == name || column == joules || column == watts || column == time ||
           column == instructions;
  }
};

Result<void> find_measured(const Csv& csv, const CounterColumns& columns, Found& found) {
  if (columns.measured.empty()) {
    found.joules = csv.column("energy_j");
    if (found.joules < 0) found.watts = csv.column("power_w");
  } else {
    const int column = csv.column(columns.measured);
    if (column < 0)
      return bad_input(csv.at(csv.header), fmt::format("column '{}' is missing", columns.measured));
    if (columns.measured.ends_with("_j")) {
      found.joules = column;
    } else if (columns.measured.ends_with("_w")) {
      found.watts = column;
    } else {
      return bad_input(csv.at(csv.header),
                       fmt::format("'{}' must end in _j (joules) or _w (watts)", columns.measured));
    }
  }
  if (found.joules >= 0 || found.watts >= 0 || !columns.measurement) return {};
  return bad_input(csv.at(csv.header), "neither energy_j nor power_w is there");
}

Result<void> find_components(const Csv& csv, const CounterColumns& columns, Found& found,
                             CounterTable& table) {
  std::set<int> used;
  for (const ComponentColumns& component : columns.components) {
    std::vector<int> indices;
    for (const std::string& name : component.columns) {
      const int column = csv.column(name);
      if (column < 0) continue;
      if (found.special(column) || !used.insert(column).second)
        return bad_input(
            csv.at(csv.header),
            fmt::format("column '{}' of component '{}' is used twice", name, component.name));
      indices.push_back(column);
    }
    if (indices.empty()) continue;
    table.components.push_back(component);
    found.components.push_back(std::move(indices));
  }
  const int width = static_cast<int>(csv.header.cells.size());
  for (int column = 0; column < width; ++column) {
    if (found.special(column) || used.contains(column)) continue;
    const std::string& name = csv.header.cells[static_cast<std::size_t>(column)];
    if (!columns.components.empty()) {
      table.left_out.push_back(name);
      continue;
    }
    if (const std::string fault = name_fault(name); !fault.empty())
      return bad_input(csv.at(csv.header), fmt::format("name of column {}: {}", column + 1, fault));
    table.components.push_back({name, {name}});
    found.components.push_back({column});
  }
  if (table.components.empty())
    return bad_input(csv.at(csv.header), "no column holds accesses of a component");
  if (table.components.size() > kMaxComponents)
    return bad_input(csv.at(csv.header), fmt::format("more than {} components", kMaxComponents));
  return {};
}

Result<std::optional<double>> optional_number(const Csv& csv, const CsvRow& row, int column,
                                              profile::NumberRange range) {
  if (column < 0) return std::optional<double>{};
  const auto value = TRY(profile::csv_number(csv, row, column, range));
  return std::optional<double>{value};
}

// What a row measured: joules, or watts where no time makes joules of them.
Result<double> measured(const Csv& csv, const CsvRow& row, const Found& found,
                        const CounterRow& read, double idle_w) {
  const bool joules = found.joules >= 0;
  const double most = joules ? kMaxBoardWatts * kMaxRunSeconds : kMaxBoardWatts;
  const auto value =
      TRY(profile::csv_number(csv, row, joules ? found.joules : found.watts, {0, most}));
  double left = value;
  if (joules && idle_w > 0) {
    if (!read.time_s) return bad_input(csv.at(row), "idle power needs a column time_s");
    left -= idle_w * *read.time_s;
  } else {
    left -= idle_w;
  }
  if (left <= 0)
    return bad_input(csv.at(row),
                     idle_w > 0 ? "nothing is left above the idle power" : "a measurement of 0");
  return joules ? left : left * read.time_s.value_or(1);
}

Result<CounterRow> read_row(const Csv& csv, const CsvRow& row, const Found& found, double idle_w) {
  CounterRow out;
  out.line = row.line;
  out.name = found.name < 0 ? fmt::format("line {}", row.line)
                            : row.cells[static_cast<std::size_t>(found.name)];
  if (const std::string fault = name_fault(out.name); !fault.empty())
    return bad_input(csv.at(row), "name: " + fault);
  out.time_s = TRY(optional_number(csv, row, found.time, {1e-9, kMaxRunSeconds}));
  out.instructions = TRY(optional_number(csv, row, found.instructions, {1, kMaxAccesses}));
  for (const std::vector<int>& columns : found.components) {
    out.accesses.push_back(0);
    for (const int column : columns) {
      const auto value = TRY(profile::csv_number(csv, row, column, {0, kMaxAccesses}));
      out.accesses.back() += value;
    }
  }
  if (found.joules < 0 && found.watts < 0) return out;
  out.measured = TRY(measured(csv, row, found, out, idle_w));
  return out;
}

}  // namespace

std::string CounterTable::at(const CounterRow& row) const {
  return fmt::format("{}:{}", file, row.line);
}

Result<CounterTable> parse_counters(const std::string& file, std::string_view text,
                                    const CounterColumns& columns) {
  const Csv csv = TRY(profile::parse_csv(file, text));
  Found found;
  for (const std::string_view name : kNames)
    if (found.name < 0) found.name = csv.column(name);
  found.time = csv.column("time_s");
  found.instructions = csv.column("instructions");
  TRY(find_measured(csv, columns, found));
  CounterTable table;
  table.file = file;
  table.watts = found.joules < 0 && found.watts >= 0 && found.time < 0;
  TRY(find_components(csv, columns, found, table));
  if (csv.rows.size() > kMaxCounterRows)
    return bad_input(file, fmt::format("more than {} rows", kMaxCounterRows));
  std::set<std::string> names;
  for (const CsvRow& row : csv.rows) {
    CounterRow read = TRY(read_row(csv, row, found, columns.idle_w));
    if (!names.insert(read.name).second)
      return bad_input(csv.at(row), fmt::format("'{}' is there twice", read.name));
    table.rows.push_back(std::move(read));
  }
  return table;
}

Result<std::vector<ComponentColumns>> parse_component_columns(const std::string& file,
                                                              std::string_view text) {
  const Document document = TRY(parse_document(file, text));
  if (document.root.kind != Node::Kind::object || document.root.members.empty())
    return bad_input(document.at(document.root), "must be NAME: [column, ...] for every component");
  Fields fields(document);
  std::vector<ComponentColumns> components;
  for (const Node::Member& member : document.root.members) {
    if (const std::string fault = name_fault(member.key); !fault.empty())
      fields.refuse(member.value, fault);
    components.push_back({member.key, fields.texts(member.key)});
    if (components.back().columns.empty()) fields.refuse(member.value, "names no column");
    if (components.size() > kMaxComponents)
      fields.refuse(member.value, fmt::format("more than {} components", kMaxComponents));
    if (fields.error()) return failed(*fields.error());
  }
  return components;
}

double energy_per_instruction(double watts, double seconds, double instructions) {
  CHECK(instructions > 0);
  return watts * seconds / instructions;
}

}  // namespace partita::energy
