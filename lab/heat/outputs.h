// What HotSpot writes, with six decimals instead of two, and read back: temperatures of blocks and
// package nodes (.steady, .init), of blocks over time (.ttrace), of cells (grid files).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heat/network.h"

namespace partita::thermal {

// A line per block of every layer and per package node: name, tab, kelvin.
struct NamedKelvin {
  std::string name;
  double kelvin = 0;
  bool operator==(const NamedKelvin&) const = default;
};
std::vector<NamedKelvin> steady_lines(const Network& network, const Solution& solution);
std::string write_steady(const std::vector<NamedKelvin>& lines);
// Refused with FILE:LINE: names that stand twice, temperatures that no chip has. A head line
// "Unit Steady(Kelvin)", which HotSpot prints, is skipped.
Result<std::vector<NamedKelvin>> read_steady(const std::string& file, std::string_view text);
// The temperatures of all nodes from such lines: every cell has the mean of its blocks. With
// HotSpot's defects cells that blocks do not cover whole start colder.
Result<std::vector<double>> start_from(const Network& network, const std::string& file,
                                       const std::vector<NamedKelvin>& lines);

// "Layer n:", then a line per cell: its number, tab, kelvin.
std::string write_grid_steady(const Network& network, const Solution& solution);
struct GridValues {
  std::vector<std::vector<double>> layers;
};
Result<GridValues> read_grid_steady(const std::string& file, std::string_view text);

// The names, then a line per sample.
struct TemperatureTrace {
  std::vector<std::string> names;
  std::vector<std::vector<double>> rows;  // kelvin
};
std::string write_ttrace(const TemperatureTrace& trace);
Result<TemperatureTrace> read_ttrace(const std::string& file, std::string_view text);

}  // namespace partita::thermal
