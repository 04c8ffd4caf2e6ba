#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

// The longest description of an instance that fits is shown; at worst its service's name, cut.
LabelledBox labelled(const Box& box, const std::map<std::string_view, int>& order) {
  const PlannedInstance& instance = *box.instance;
  const std::string point = fmt::format("b{}×{}", instance.batch, instance.processes);
  const std::string name = utf8(printable(instance.service));
  return {.start = box.start,
          .size = box.size,
          .labels = {fmt::format("{} {} {}", name, instance.profile, point),
                     fmt::format("{} {}", name, point), name},
          .colour = distinct_colour(order.at(instance.service))};
}

// Boxes that overlap, which the judge refuses, hide one another.
std::string strip_text(const Strip& strip, const std::map<std::string_view, int>& order,
                       const Painter& painter) {
  std::vector<LabelledBox> boxes;
  for (const Box& box : strip.boxes) boxes.push_back(labelled(box, order));
  return bar_text(strip.slices, boxes, painter);
}

// The bars, with a ruler wherever the GPU model changes.
std::string gpus_text(const ServingPlan& plan, const hw::Catalogue& catalogue,
                      const PictureOptions& options) {
  const Painter painter(options.colour);
  const auto order = service_order(plan);
  const auto shown =
      std::min(plan.gpus.size(), static_cast<std::size_t>(std::max(0, options.max_gpus)));
  int head = 0;
  for (std::size_t i = 0; i < shown; ++i)
    head = std::max(
        {head, columns(plan.gpus[i].model), columns(fmt::format("GPU {}", plan.gpus[i].index))});
  std::string text;
  const std::string* model = nullptr;
  int slices = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const PlannedGpu& gpu = plan.gpus[i];
    const Strip strip = strip_of(gpu, catalogue);
    if (!model || *model != gpu.model || slices != strip.slices)
      text += fmt::format("{} {}\n", fit(gpu.model, head), painter.dim(ruler_text(strip.slices)));
    model = &gpu.model;
    slices = strip.slices;
    text += fmt::format("{} {}\n", fit(fmt::format("GPU {}", gpu.index), head),
                        strip_text(strip, order, painter));
  }
  if (shown < plan.gpus.size())
    text += fmt::format("... and {} more GPUs\n", plan.gpus.size() - shown);
  return text;
}

// "3: 2 × 1g.10gb, 1 × 4g.40gb" of every service.
std::map<std::string_view, std::string> instance_counts(const ServingPlan& plan) {
  std::map<std::string_view, std::map<std::string_view, int>> counts;
  for (const PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& instance : gpu.instances)
      ++counts[instance.service][instance.profile];
  std::map<std::string_view, std::string> texts;
  for (const auto& [service, profiles] : counts) {
    int total = 0;
    std::string list;
    for (const auto& [profile, count] : profiles) {
      total += count;
      list += fmt::format("{}{} × {}", list.empty() ? "" : ", ", count, profile);
    }
    texts[service] = fmt::format("{}: {}", total, list);
  }
  return texts;
}

std::string services_text(const ServingPlan& plan, const PictureOptions& options) {
  constexpr int kNameColumns = 32;
  const auto counts = instance_counts(plan);
  const auto shown =
      std::min(plan.services.size(), static_cast<std::size_t>(std::max(0, options.max_gpus)));
  std::vector<TextRow> rows{
      {"service", "rate/s", "planned/s", "slack", "SLO ms", "latency ms", "instances"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const PlannedService& s = plan.services[i];
    const auto count = counts.find(s.name);
    const double slack = 100 * (s.planned / s.rate - 1);
    rows.push_back({fit(s.name, std::min(kNameColumns, columns(s.name))), number_text(s.rate.value),
                    number_text(s.planned.value),
                    s.rate.value > 0 ? fmt::format("{:.{}f}%", slack, slack < 100 ? 1 : 0) : "-",
                    number_text(s.slo.value), number_text(s.predicted_latency.value),
                    count == counts.end() ? "none" : count->second});
  }
  std::string text = aligned(rows);
  if (shown < plan.services.size())
    text += fmt::format("... and {} more services\n", plan.services.size() - shown);
  return text;
}

}  // namespace

std::string plan_text(const ServingPlan& plan, const hw::Catalogue& catalogue,
                      const PictureOptions& options) {
  const Painter painter(options.colour);
  std::string text = gpus_text(plan, catalogue, options);
  text += fmt::format("\n{}\n", services_text(plan, options));
  text += painter.bold(objective_text(plan.objective)) + "\n";
  text += fmt::format("planner {}, SLO rule {}\nplanned in {} ms of CPU time",
                      plan.planner.empty() ? "unknown" : utf8(printable(plan.planner)),
                      to_string(plan.rule), number_text(plan.stats.planning_ms));
  if (plan.stats.capacity_ms > 0)
    text += fmt::format(" after {} ms for the capacities", number_text(plan.stats.capacity_ms));
  if (plan.stats.nodes > 0)
    text += fmt::format("; {}", count_text(plan.stats.nodes, "search node"));
  text += "\n";
  if (options.explain && !plan.explanation.empty()) {
    text += "\nwhy:\n";
    for (const std::string& line : plan.explanation)
      text += fmt::format("  - {}\n", utf8(printable(line)));
  }
  return text;
}

}  // namespace partita::forms
