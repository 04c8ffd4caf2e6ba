#include "kernel_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/terminal.h"

namespace partita::cli {

std::string strip(const std::vector<int>& units, int most, int columns) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto width = std::min(static_cast<std::size_t>(std::max(columns, 10)), units.size());
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t first = i * units.size() / width, end = (i + 1) * units.size() / width;
    double sum = 0;
    for (std::size_t k = first; k < end; ++k) sum += units[k];
    const double share = sum / (static_cast<double>(end - first) * most);
    text += kBlocks[std::clamp(static_cast<int>(share * 8), 0, 7)];
  }
  return text;
}

int median(std::vector<int> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string model_facts(const profile::ModelKernels& model, const hw::Topology& topology) {
  return fmt::format("{}, {:.0f} us on all {} {}s",
                     count_text(static_cast<long>(model.kernels.size()), "kernel"),
                     model.time_us(topology.units()), topology.units(), topology.unit_name);
}

std::string gpu_facts(const hw::Topology& topology, int atom) {
  std::string text = fmt::format("{}, {} {}s", topology.name, topology.units(), topology.unit_name);
  if (atom > 1) text += fmt::format(" in atoms of {}", atom);
  return text;
}

}  // namespace partita::cli
