#include "decide/kernel_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/terminal.h"
#include "decide/kernel_planning.h"
#include "forms/kernel_picture.h"

namespace partita::decide {

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

std::string model_facts(const profile::ModelKernels& model, const hw::Topology& topology) {
  return fmt::format(
      "{}, {} on all {} {}s", count_text(static_cast<long>(model.kernels.size()), "kernel"),
      duration_text(model.time_us(topology.units()) * 1e-6), topology.units(), topology.unit_name);
}

std::string gpu_facts(const hw::Topology& topology, int atom) {
  std::string text = fmt::format("{}, {} {}s", topology.name, topology.units(), topology.unit_name);
  if (atom > 1) text += fmt::format(" in atoms of {}", atom);
  return text;
}

std::string objective_text(const plan::KernelPlan& plan) {
  return fmt::format("objective {:.3f} us, bound {:.3f}{}", plan.objective, plan.bound,
                     plan.optimal ? ": optimal" : "");
}

std::string kernel_plan_text(const plan::KernelProblem& problem,
                             const plan::PlannedKernels& planned, const hw::Topology& topology,
                             int width) {
  const plan::KernelPlan& plan = planned.plan;
  Table table{{"WORKER", "KERNELS", "SWITCHES", "MEAN UNITS", "ALONE us", "PREDICTED us"}, {}};
  std::string strips;
  std::vector<std::string> names;
  const auto units = units_of_kernels(problem, plan);
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const plan::Grouping& one = plan.workers[w];
    names.push_back(problem.workers[w].name);
    table.rows.push_back({names.back(), fmt::format("{}", one.option.size()),
                          fmt::format("{}", one.switches), fmt::format("{:.1f}", one.mean_units),
                          fmt::format("{:.0f}", one.time),
                          fmt::format("{:.0f}", plan::predicted_time(problem, plan, w))});
    strips += fmt::format("\n{}\n{}\n", names.back(), strip(units[w], problem.total_units, width));
  }
  return to_string(table) + "\n" + objective_text(plan) + "\n" + strips + "\n" +
         forms::lanes_text(names, planned.lanes, topology, width);
}

}  // namespace partita::decide
