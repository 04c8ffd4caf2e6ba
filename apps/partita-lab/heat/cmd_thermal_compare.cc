#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/form.h"
#include "base/parse_number.h"
#include "base/table.h"
#include "decide/input.h"
#include "flags.h"
#include "heat/thermal_flags.h"
#include "heat/compare.h"
#include "heat/flp.h"
#include "heat/text_lines.h"

namespace partita::cli {
namespace {

struct ComparisonFlags {
  std::string result, reference, flp, grid;
  double ambient = 318.15, require = 0;
  Output output;
};

enum class ResultKind { steady, grid, trace };

// By the first line that says something.
Result<ResultKind> kind_of(const std::string& file, std::string_view text) {
  const auto lines = TRY(thermal::word_lines(file, text));
  if (lines.empty()) return bad_input(file, "no temperatures");
  const auto& words = lines.front().words;
  if (words[0] == "Layer") return ResultKind::grid;
  if (words.size() != 2 || words[0] == "Unit")
    return words.size() == 2 ? ResultKind::steady : ResultKind::trace;
  if (!parse_number<double>(words[1])) return ResultKind::trace;
  return parse_number<double>(words[0]) ? ResultKind::grid : ResultKind::steady;
}

// One line of what is said: a name, and how well it agrees.
struct Part {
  std::string name;
  thermal::ValueAgreement values;
};
struct ComparisonAnswer {
  std::vector<Part> parts;                  // the first is about everything
  std::vector<thermal::MapAgreement> maps;  // per layer of grids
  int unmatched = 0;                        // names of one side alone
};

Result<ComparisonAnswer> compare_steady(const ComparisonFlags& flags, const std::string& result,
                                        const std::string& reference) {
  const auto ours = TRY(thermal::read_steady(flags.result, result));
  const auto theirs = TRY(thermal::read_steady(flags.reference, reference));
  std::map<std::string, double> known;
  for (const thermal::NamedKelvin& line : theirs) known.emplace(line.name, line.kelvin);
  ComparisonAnswer answer;
  std::vector<double> a, b;
  for (const thermal::NamedKelvin& line : ours) {
    const auto found = known.find(line.name);
    if (found == known.end()) {
      ++answer.unmatched;
      continue;
    }
    a.push_back(line.kelvin);
    b.push_back(found->second);
    known.erase(found);
  }
  answer.unmatched += static_cast<int>(known.size());
  if (a.empty()) return bad_input(flags.result, "no name is in both files");
  answer.parts.push_back({"all names", thermal::value_agreement(a, b, flags.ambient)});
  return answer;
}

Result<ComparisonAnswer> compare_traces(const ComparisonFlags& flags, const std::string& result,
                                        const std::string& reference) {
  const auto ours = TRY(thermal::read_ttrace(flags.result, result));
  const auto theirs = TRY(thermal::read_ttrace(flags.reference, reference));
  if (ours.rows.size() != theirs.rows.size())
    return bad_input(flags.result, fmt::format("{} samples; {} has {}", ours.rows.size(),
                                               flags.reference, theirs.rows.size()));
  ComparisonAnswer answer;
  std::vector<double> all_a, all_b;
  std::vector<Part> blocks;
  for (std::size_t i = 0; i < ours.names.size(); ++i) {
    const auto found = std::ranges::find(theirs.names, ours.names[i]);
    if (found == theirs.names.end()) {
      ++answer.unmatched;
      continue;
    }
    const auto column = static_cast<std::size_t>(found - theirs.names.begin());
    std::vector<double> a, b;
    for (std::size_t row = 0; row < ours.rows.size(); ++row) {
      a.push_back(ours.rows[row][i]);
      b.push_back(theirs.rows[row][column]);
    }
    blocks.push_back({ours.names[i], thermal::value_agreement(a, b, flags.ambient)});
    all_a.insert(all_a.end(), a.begin(), a.end());
    all_b.insert(all_b.end(), b.begin(), b.end());
  }
  if (all_a.empty()) return bad_input(flags.result, "no name is in both files");
  answer.unmatched += static_cast<int>(theirs.names.size() - blocks.size());
  answer.parts.push_back({"all samples", thermal::value_agreement(all_a, all_b, flags.ambient)});
  answer.parts.insert(answer.parts.end(), blocks.begin(), blocks.end());
  return answer;
}

// Of --grid, else a square.
Result<thermal::GridSize> size_of_maps(const ComparisonFlags& flags, std::size_t cells) {
  thermal::GridSize size;
  if (flags.grid.empty()) {
    size.rows = size.cols = static_cast<int>(std::lround(std::sqrt(static_cast<double>(cells))));
  } else {
    size = TRY(thermal::parse_grid_size("--grid", flags.grid));
  }
  if (static_cast<std::size_t>(size.rows) * static_cast<std::size_t>(size.cols) != cells)
    return bad_input("--grid", fmt::format("layers of {} cells; say their ROWS,COLS", cells));
  return size;
}

Result<thermal::CellSize> cell_size(Context& context, const ComparisonFlags& flags,
                                    const thermal::GridSize& size) {
  if (flags.flp.empty()) return thermal::CellSize{};
  const auto text = TRY(read_input(context.files, "--flp", flags.flp));
  const auto plan = TRY(thermal::read_flp(flags.flp, text));
  return thermal::CellSize{plan.width * 1e6 / size.cols, plan.height * 1e6 / size.rows};
}

Result<ComparisonAnswer> compare_grids(Context& context, const ComparisonFlags& flags,
                                       const std::string& result, const std::string& reference) {
  const auto ours = TRY(thermal::read_grid_steady(flags.result, result));
  const auto theirs = TRY(thermal::read_grid_steady(flags.reference, reference));
  const std::size_t cells = ours.layers.front().size();
  if (ours.layers.size() != theirs.layers.size() || cells != theirs.layers.front().size())
    return bad_input(flags.result, fmt::format("{} layers of {} cells; {} has {} of {}",
                                               ours.layers.size(), cells, flags.reference,
                                               theirs.layers.size(), theirs.layers.front().size()));
  const thermal::GridSize size = TRY(size_of_maps(flags, cells));
  const thermal::CellSize cell = TRY(cell_size(context, flags, size));
  ComparisonAnswer answer;
  std::vector<double> all_a, all_b;
  for (std::size_t n = 0; n < ours.layers.size(); ++n) {
    raster::Grid a(size.rows, size.cols), b(size.rows, size.cols);
    a.values = ours.layers[n];
    b.values = theirs.layers[n];
    answer.maps.push_back(thermal::map_agreement(a, b, cell, flags.ambient));
    all_a.insert(all_a.end(), a.values.begin(), a.values.end());
    all_b.insert(all_b.end(), b.values.begin(), b.values.end());
  }
  answer.parts.push_back({"all cells", thermal::value_agreement(all_a, all_b, flags.ambient)});
  for (std::size_t n = 0; n < answer.maps.size(); ++n)
    answer.parts.push_back({fmt::format("layer {}", n), answer.maps[n].cells});
  return answer;
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "-";
}

std::string comparison_text(const ComparisonFlags& flags, const ComparisonAnswer& answer) {
  Table table{{"WHAT", "VALUES", "WORST K", "RMS K", "MEAN K", "SLOPE", "PEARSON", "SPEARMAN",
               "RISE % GEOMEAN", "P95"},
              {}};
  for (const Part& part : answer.parts) {
    const thermal::ValueAgreement& v = part.values;
    table.rows.push_back({part.name, fmt::format("{}", v.values), fmt::format("{:.6f}", v.worst_k),
                          fmt::format("{:.6f}", v.rms_k), fmt::format("{:+.6f}", v.mean_k),
                          fmt::format("{:.6f}", v.slope), fmt::format("{:.6f}", v.pearson),
                          fmt::format("{:.6f}", v.spearman), percent(v.rise_error_geomean),
                          percent(v.rise_error_p95)});
  }
  std::string text = to_string(table);
  if (!answer.maps.empty()) {
    Table maps{
        {"MAP", "NORMALISED RMSE", "SSIM", "PEAK K",
         flags.flp.empty() ? "PEAK OFF (cells)" : "PEAK OFF um", "HISTOGRAM", "WASSERSTEIN K"},
        {}};
    for (std::size_t n = 0; n < answer.maps.size(); ++n) {
      const thermal::MapAgreement& m = answer.maps[n];
      maps.rows.push_back({fmt::format("layer {}", n), fmt::format("{:.6f}", m.normalised_rmse),
                           fmt::format("{:.6f}", m.similarity), fmt::format("{:+.6f}", m.peak_k),
                           fmt::format("{:.1f}", m.peak_distance),
                           fmt::format("{:.4f}", m.histogram_overlap),
                           fmt::format("{:.6f}", m.wasserstein_k)});
    }
    text += "\n" + to_string(maps);
  }
  if (answer.unmatched > 0)
    text += fmt::format("\n{} names are in one of the files alone\n", answer.unmatched);
  return text;
}

void tell_part(Form& f, const Part& part) {
  const thermal::ValueAgreement& v = part.values;
  f.told("name", part.name);
  f.told("values", v.values);
  f.told("worst_k", v.worst_k);
  f.told("rms_k", v.rms_k);
  f.told("mean_k", v.mean_k);
  f.told("slope", v.slope);
  f.told("intercept_k", v.intercept);
  f.told("pearson", v.pearson);
  f.told("spearman", v.spearman);
  f.optional(v.rise_error_geomean.has_value())
      .told("rise_error_geomean_percent", v.rise_error_geomean);
  f.optional(v.rise_error_p95.has_value()).told("rise_error_p95_percent", v.rise_error_p95);
}

std::string comparison_json(const ComparisonAnswer& answer) {
  const auto map = [&](Form& f, std::size_t layer) {
    const thermal::MapAgreement& m = answer.maps[layer];
    f.told("layer", layer);
    f.told("normalised_rmse", m.normalised_rmse);
    f.told("ssim", m.similarity);
    f.told("peak_k", m.peak_k);
    f.told("peak_distance", m.peak_distance);
    f.told("histogram_overlap", m.histogram_overlap);
    f.told("wasserstein_k", m.wasserstein_k);
  };
  return write_form([&](Form& f) {
    f.document("ThermalComparison");
    f.told("unmatched", answer.unmatched);
    f.line("  ").rows("parts", answer.parts, tell_part, {.indent = "    "});
    f.line("  ").rows("maps", answer.maps.size(), map, {.indent = "    "});
  });
}

Result<Exit> run_comparison(Context& context, const ComparisonFlags& flags) {
  const auto result = TRY(read_input(context.files, "RESULT", flags.result));
  const auto reference = TRY(read_input(context.files, "REFERENCE", flags.reference));
  const ResultKind kind = TRY(kind_of(flags.result, result));
  const ComparisonAnswer answer =
      TRY(kind == ResultKind::steady  ? compare_steady(flags, result, reference)
          : kind == ResultKind::trace ? compare_traces(flags, result, reference)
                                      : compare_grids(context, flags, result, reference));
  const std::string content =
      flags.output.json() ? comparison_json(answer) : comparison_text(flags, answer);
  TRY(deliver(context, flags.output, content));
  const double worst = answer.parts.front().values.worst_k;
  if (flags.require <= 0 || (worst <= flags.require && answer.unmatched == 0)) return Exit::done;
  complain(context, fmt::format("off by up to {:.6f} K; {} K were required", worst, flags.require));
  return Exit::no;
}

}  // namespace

Command add_thermal_compare(CLI::App& thermal) {
  auto [command, flags] = adding<ComparisonFlags>(
      thermal, "compare",
      "How well two results agree: steady, grid or trace files of HotSpot's forms");
  command->add_option("RESULT", flags->result, "The result that is judged")->required();
  command->add_option("REFERENCE", flags->reference, "What it is held against")->required();
  within(flag(*command, "--ambient", flags->ambient), 0, 1000)->default_str("318.15");
  flag(*command, "--flp", flags->flp);
  flag(*command, "--grid", flags->grid);
  within(flag(*command, "--require-within", flags->require), 0, 1e6);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita thermal compare ours.steady reference.steady --require 0.001");
  return {command, [flags](Context& context) { return run_comparison(context, *flags); }};
}

}  // namespace partita::cli
