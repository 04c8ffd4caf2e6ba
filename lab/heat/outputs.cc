#include "heat/outputs.h"

#include <fmt/format.h>

#include <iterator>
#include <set>

#include "base/append.h"
#include "base/index.h"
#include "heat/network_parts.h"
#include "heat/text_lines.h"

namespace partita::thermal {
namespace {

constexpr NumberWanted kTemperature{"temperature", 1, 5000,
                                    "kelvin are wanted, are these degrees Celsius?"};

}  // namespace

std::vector<NamedKelvin> steady_lines(const Network& network, const Solution& solution) {
  const Network::Parts& parts = network.parts();
  std::vector<NamedKelvin> lines;
  for (std::size_t n = 0; n < parts.layers.size(); ++n) {
    const std::span<const double> map(solution.kelvin.data() + n * parts.cells(), parts.cells());
    for (const BlockCells& cells : parts.plans[at(parts.layers[n].plan)])
      lines.push_back({parts.layers[n].prefix + cells.name, block_temperature(parts, map, cells)});
  }
  const std::size_t package = parts.layers.size() * parts.cells();
  for (std::size_t i = 0; i < parts.package_capacity.size(); ++i)
    lines.push_back({fmt::format("inode_{}", i), solution.kelvin[package + i]});
  return lines;
}

std::string write_steady(const std::vector<NamedKelvin>& lines) {
  std::string text;
  for (const NamedKelvin& line : lines) append(text, "{}\t{:.6f}\n", line.name, line.kelvin);
  return text;
}

Result<std::vector<NamedKelvin>> read_steady(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  std::vector<NamedKelvin> found;
  std::set<std::string_view> names;
  for (const WordLine& line : lines) {
    const std::string where = place(file, line.line);
    if (line.words.size() != 2) return bad_input(where, "a line is to be 'name kelvin'");
    if (found.empty() && line.words[1] == "Steady(Kelvin)") continue;
    if (!names.insert(line.words[0]).second)
      return bad_input(where, fmt::format("{} stands twice", line.words[0]));
    const double kelvin = TRY(number_at(where, line.words[1], kTemperature));
    found.push_back({std::string(line.words[0]), kelvin});
  }
  if (found.empty()) return bad_input(file, "no temperatures");
  return found;
}

Result<std::vector<double>> start_from(const Network& network, const std::string& file,
                                       const std::vector<NamedKelvin>& lines) {
  const Network::Parts& parts = network.parts();
  std::map<std::string, double> known;
  for (const NamedKelvin& line : lines) known.emplace(line.name, line.kelvin);
  const auto take = [&](const std::string& name) -> Result<double> {
    const auto found = known.find(name);
    if (found == known.end()) return bad_input(file, fmt::format("no temperature for {}", name));
    return found->second;
  };
  std::vector<double> nodes(parts.nodes());
  for (std::size_t n = 0; n < parts.layers.size(); ++n) {
    std::vector<double> covered(parts.cells());
    double* layer = nodes.data() + n * parts.cells();
    double mean = 0, area = 0;
    for (const BlockCells& cells : parts.plans[at(parts.layers[n].plan)]) {
      const double kelvin = TRY(take(parts.layers[n].prefix + cells.name));
      mean += kelvin * cells.cells;
      area += cells.cells;
      for (int row = cells.row_from; row < cells.row_to; ++row)
        for (int col = cells.col_from; col < cells.col_to; ++col) {
          const double share =
              cells.row_share[at(row - cells.row_from)] * cells.col_share[at(col - cells.col_from)];
          covered[at(row * parts.cols + col)] += share;
          layer[row * parts.cols + col] += share * kelvin;
        }
    }
    if (parts.cold_gaps) continue;
    for (std::size_t i = 0; i < covered.size(); ++i)
      layer[i] = covered[i] > 0 ? layer[i] / covered[i] : mean / area;
  }
  for (std::size_t i = 0; i < parts.package_capacity.size(); ++i) {
    const double kelvin = TRY(take(fmt::format("inode_{}", i)));
    nodes[parts.layers.size() * parts.cells() + i] = kelvin;
  }
  return nodes;
}

std::string write_grid_steady(const Network& network, const Solution& solution) {
  const std::size_t cells = network.parts().cells();
  std::string text;
  text.reserve(at(network.layers()) * cells * 18);
  for (int n = 0; n < network.layers(); ++n) {
    append(text, "Layer {}:\n", n);
    for (std::size_t i = 0; i < cells; ++i)
      append(text, "{}\t{:.6f}\n", i, solution.kelvin[at(n) * cells + i]);
  }
  return text;
}

Result<GridValues> read_grid_steady(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  GridValues values;
  for (const WordLine& line : lines) {
    const std::string where = place(file, line.line);
    if (line.words.size() != 2) return bad_input(where, "a line is to be 'cell kelvin'");
    if (line.words[0] == "Layer") {
      if (line.words[1] != fmt::format("{}:", values.layers.size()))
        return bad_input(where, fmt::format("layer {} is due", values.layers.size()));
      values.layers.emplace_back();
      continue;
    }
    // HotSpot 6 wrote one layer without a head line.
    if (values.layers.empty()) values.layers.emplace_back();
    std::vector<double>& layer = values.layers.back();
    if (line.words[0] != fmt::format("{}", layer.size()))
      return bad_input(where, fmt::format("cell {} is due", layer.size()));
    const double kelvin = TRY(number_at(where, line.words[1], kTemperature));
    layer.push_back(kelvin);
  }
  if (values.layers.empty()) return bad_input(file, "no temperatures");
  for (const auto& layer : values.layers)
    if (layer.empty() || layer.size() != values.layers.front().size())
      return bad_input(file, "layers of different numbers of cells");
  return values;
}

std::string write_ttrace(const TemperatureTrace& trace) {
  std::string text = fmt::format("{}\n", joined(trace.names, "\t"));
  for (const std::vector<double>& row : trace.rows) {
    for (const double& kelvin : row)
      append(text, "{}{:.6f}", &kelvin == &row.front() ? "" : "\t", kelvin);
    text += '\n';
  }
  return text;
}

Result<TemperatureTrace> read_ttrace(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  if (lines.size() < 2) return bad_input(file, "a line of names and lines of kelvin are wanted");
  TemperatureTrace trace;
  trace.names.assign(lines.front().words.begin(), lines.front().words.end());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const WordLine& line = lines[i];
    const std::string where = place(file, line.line);
    if (line.words.size() != trace.names.size())
      return bad_input(
          where, fmt::format("{} numbers for {} names", line.words.size(), trace.names.size()));
    std::vector<double>& row = trace.rows.emplace_back();
    for (const std::string_view word : line.words) {
      const double kelvin = TRY(number_at(where, word, kTemperature));
      row.push_back(kelvin);
    }
  }
  return trace;
}

}  // namespace partita::thermal
