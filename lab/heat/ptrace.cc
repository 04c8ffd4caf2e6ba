#include "heat/ptrace.h"

#include <fmt/format.h>

#include <map>

#include "base/index.h"
#include "heat/text_lines.h"

namespace partita::thermal {

Result<PowerTrace> read_ptrace(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  if (lines.empty()) return bad_input(file, "a power trace without names of blocks");
  PowerTrace trace;
  trace.file = file;
  trace.header_line = lines.front().line;
  trace.names.assign(lines.front().words.begin(), lines.front().words.end());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const WordLine& line = lines[i];
    const std::string where = place(file, line.line);
    if (line.words.size() != trace.names.size())
      return bad_input(where,
                       fmt::format("{} numbers for the {} blocks of line {}", line.words.size(),
                                   trace.names.size(), trace.header_line));
    std::vector<double>& row = trace.rows.emplace_back();
    row.reserve(line.words.size());
    for (std::size_t j = 0; j < line.words.size(); ++j) {
      const Result<double> watts =
          number_at(where, line.words[j],
                    {"watts", 0, kMostBlockWatts, "a block takes heat up in no model of ours"});
      if (!watts) {
        Error error = watts.error();
        error.message = trace.names[j] + ": " + error.message;
        return failed(std::move(error));
      }
      row.push_back(*watts);
    }
  }
  if (trace.rows.empty()) return bad_input(file, "a power trace without a sample");
  return trace;
}

Result<std::vector<int>> trace_columns(const PowerTrace& trace,
                                       const std::vector<std::vector<std::string>>& layers) {
  const std::string where = place(trace.file, trace.header_line);
  std::size_t blocks = 0;
  for (const auto& layer : layers) blocks += layer.size();
  std::vector<int> columns;
  std::size_t from = 0;
  for (const auto& layer : layers) {
    std::map<std::string, int> found;
    const std::size_t to =
        layers.size() == 1 ? trace.names.size() : std::min(from + layer.size(), trace.names.size());
    for (std::size_t i = from; i < to; ++i)
      if (!found.emplace(trace.names[i], static_cast<int>(i)).second)
        return bad_input(where, fmt::format("block {} stands twice", trace.names[i]));
    for (const std::string& name : layer) {
      const auto column = found.find(name);
      if (column == found.end())
        return bad_input(where, fmt::format("no watts for block {}", name));
      columns.push_back(column->second);
      found.erase(column);
    }
    if (!found.empty())
      return bad_input(where,
                       fmt::format("block {} is not in the floorplan", found.begin()->first));
    from = to;
  }
  if (trace.names.size() != blocks)
    return bad_input(where, fmt::format("{} names for {} blocks", trace.names.size(), blocks));
  return columns;
}

std::vector<double> watts_of(const std::vector<double>& row, const std::vector<int>& columns) {
  std::vector<double> watts;
  watts.reserve(columns.size());
  for (const int column : columns) watts.push_back(row[at(column)]);
  return watts;
}

std::vector<double> mean_watts(const PowerTrace& trace, const std::vector<int>& columns) {
  std::vector<double> sum(columns.size());
  for (const std::vector<double>& row : trace.rows)
    for (std::size_t i = 0; i < columns.size(); ++i) sum[i] += row[at(columns[i])];
  for (double& watts : sum) watts /= static_cast<double>(trace.rows.size());
  return sum;
}

}  // namespace partita::thermal
