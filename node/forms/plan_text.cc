#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "base/append.h"
#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/serving_forms.h"
#include "plan/predictions.h"

namespace partita::forms {
namespace {

// The longest description of an instance that fits is shown; at worst its service's name, cut.
LabelledBox labelled(const Box& box, const std::map<std::string_view, int>& order) {
  const PlannedInstance& instance = *box.instance;
  const std::string point = point_text(instance);
  const std::string name = utf8(printable(instance.service));
  return {.start = box.start,
          .size = box.size,
          .labels = {fmt::format("{} {} {}", name, size_text(instance), point),
                     fmt::format("{} {}", name, point), (instance.predicted ? "~" : "") + name},
          .colour = distinct_colour(order.at(instance.service))};
}

// Boxes that overlap, which the judge refuses, hide one another.
std::string strip_text(const Strip& strip, int width, const std::map<std::string_view, int>& order,
                       const Painter& painter) {
  std::vector<LabelledBox> boxes;
  for (const Box& box : strip.boxes) boxes.push_back(labelled(box, order));
  return bar_text({strip.slices, width}, boxes, painter);
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
  const int width = options.width - head - 1;
  std::string text;
  const std::string* model = nullptr;
  int slices = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const PlannedGpu& gpu = plan.gpus[i];
    const Strip strip = strip_of(gpu, catalogue);
    if (!model || *model != gpu.model || slices != strip.slices)
      text += fmt::format("{} {}\n", fit(gpu.model, head),
                          painter.dim(strip.shared ? "shared whole, without MIG"
                                                   : ruler_text({strip.slices, width})));
    model = &gpu.model;
    slices = strip.slices;
    text += fmt::format("{} {}\n", fit(fmt::format("GPU {}", gpu.index), head),
                        strip_text(strip, width, order, painter));
  }
  if (shown < plan.gpus.size())
    text += fmt::format("... and {} more GPUs\n", plan.gpus.size() - shown);
  return text;
}

// "3: 2 × 1g.10gb", "1 × 4g.40gb" of every service.
std::map<std::string_view, std::vector<std::string>> instance_counts(const ServingPlan& plan) {
  std::map<std::string_view, std::map<std::string, double>> counts;
  for (const PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& instance : gpu.instances)
      counts[instance.service][size_text(instance)] += 1.0 / std::max(1, instance.group);
  std::map<std::string_view, std::vector<std::string>> texts;
  for (const auto& [service, profiles] : counts) {
    double total = 0;  // a group of GPUs is one
    for (const auto& [profile, count] : profiles) {
      total += count;
      texts[service].push_back(fmt::format("{:.0f} × {}", count, profile));
    }
    texts[service].front().insert(0, fmt::format("{:.0f}: ", total));
  }
  return texts;
}

// The parts with commas between them, on as many lines as fit into `room` columns.
std::vector<std::string> folded_list(const std::vector<std::string>& parts, int room) {
  std::vector<std::string> lines(1);
  for (const std::string& part : parts) {
    std::string& line = lines.back();
    if (!line.empty() && columns(line) + 2 + columns(part) + 1 > room) {
      line += ",";
      lines.push_back(part);
    } else {
      line += (line.empty() ? "" : ", ") + part;
    }
  }
  return lines;
}

// What the columns between the first and the last fill, with the spaces around them.
int columns_between(const std::vector<TextRow>& rows) {
  int sum = 2;
  for (std::size_t column = 1; column + 1 < rows.front().size(); ++column) {
    int widest = 0;
    for (const TextRow& row : rows) widest = std::max(widest, columns(row[column]));
    sum += widest + 2;
  }
  return sum;
}

// Names are cut, and lists of instances take several lines, where the width says so.
std::string services_text(const ServingPlan& plan, const PictureOptions& options) {
  constexpr int kLeastName = 12, kLeastInstances = 18;
  const auto counts = instance_counts(plan);
  const auto shown =
      std::min(plan.services.size(), static_cast<std::size_t>(std::max(0, options.max_gpus)));
  std::vector<TextRow> rows{
      {"service", "rate/s", "planned/s", "slack", "SLO ms", "latency ms", "instances"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const PlannedService& s = plan.services[i];
    const double over = 100 * (s.planned / s.rate - 1);
    const double slack = std::abs(over) < 0.05 ? 0 : over;  // no "-0.0%"
    rows.push_back({s.name, number_text(s.rate.value), number_text(s.planned.value),
                    s.rate.value > 0 ? fmt::format("{:.{}f}%", slack, slack < 100 ? 1 : 0) : "-",
                    s.slo.value > 0 ? number_text(s.slo.value) : "-",
                    (s.predicted ? "~" : "") + number_text(s.predicted_latency.value), "none"});
  }
  const int room = options.width - columns_between(rows);  // of names and instances
  int names = 0;
  for (TextRow& row : rows) {
    const int most = std::max(kLeastName, room - kLeastInstances);
    row.front() = fit(row.front(), std::min(most, columns(row.front())));
    names = std::max(names, columns(row.front()));
  }
  std::vector<TextRow> all{rows.front()};
  for (std::size_t i = 0; i < shown; ++i) {
    all.push_back(rows[i + 1]);
    const auto count = counts.find(plan.services[i].name);
    if (count == counts.end()) continue;
    const auto lines = folded_list(count->second, std::max(kLeastInstances, room - names));
    for (std::size_t line = 0; line < lines.size(); ++line) {
      if (line > 0) all.emplace_back(rows.front().size());
      all.back().back() = lines[line];
    }
  }
  std::string text = aligned(all);
  if (shown < plan.services.size())
    text += fmt::format("... and {} more services\n", plan.services.size() - shown);
  return text;
}

// "at 1.05 x the rate, in time: a 97.1 %, b 100.0 %": those that keep least of them, and how many
// more there are; a line per factor.
std::vector<std::string> overload_texts(const ServingPlan& plan) {
  constexpr std::size_t kMostNamed = 8;
  std::map<double, std::vector<std::pair<double, std::string_view>>> by_factor;
  std::size_t known = 0;
  for (const PlannedService& service : plan.services) {
    known += service.overload.empty() ? 0 : 1;
    for (const plan::Overload& one : service.overload)
      by_factor[one.factor].emplace_back(one.in_time, service.name);
  }
  std::vector<std::string> texts;
  for (auto& [factor, shares] : by_factor) {
    std::ranges::stable_sort(shares, {}, &std::pair<double, std::string_view>::first);
    std::string text;
    for (std::size_t i = 0; i < std::min(shares.size(), kMostNamed); ++i)
      text += fmt::format("{}{} {:.1f} %", i == 0 ? "" : ", ", utf8(printable(shares[i].second)),
                          std::floor(shares[i].first * 1e3) / 10);
    if (shares.size() > kMostNamed) text += fmt::format(", {} more", shares.size() - kMostNamed);
    if (known < plan.services.size())
      text += fmt::format(", {} not computed", plan.services.size() - known);
    texts.push_back(fmt::format("at {:g} x the rate, in time: {}", factor, text));
  }
  return texts;
}

std::string limit_text(plan::TokenLimit limit) {
  constexpr const char* kTexts[] = {"TTFT", "TPOT", "whole answer", "KV cache",
                                    "requests at once measured"};
  return kTexts[static_cast<std::size_t>(limit)];
}

// What a language model promises, and what its GPUs do for it.
std::string tokens_text(const ServingPlan& plan, const PictureOptions& options) {
  std::vector<TextRow> rows{{"language model", "TTFT ms", "TPOT ms", "in time", "tokens/s", "GPUs",
                             "a GPU", "cost/Mtoken", "KV free", "more is kept off by"}};
  const auto promised = [](Millis limit) {
    return limit.value > 0 ? number_text(limit.value) : "-";
  };
  int more = 0;
  for (const PlannedService& s : plan.services) {
    if (!s.tokens || !s.outlook) continue;
    if (static_cast<int>(rows.size()) > options.max_gpus && ++more) continue;
    const plan::TokenOutlook& seen = *s.outlook;
    rows.push_back({fit(s.name, std::min(24, columns(s.name))), promised(s.tokens->ttft),
                    promised(s.tokens->tpot), fmt::format("{:g} %", s.percentile),
                    number_text(seen.tokens_per_s), number_text(seen.gpus),
                    seen.gpus > 0 ? number_text(seen.tokens_per_s / seen.gpus) : "-",
                    seen.cost_per_million ? number_text(*seen.cost_per_million) : "-",
                    fmt::format("{:.0f} %", 100 * (1 - seen.kv_used)), limit_text(seen.limit)});
  }
  if (rows.size() == 1) return "";
  std::string text = aligned(rows);
  if (more > 0) text += fmt::format("... and {} more language models\n", more);
  return text + "\n";
}

// Which engines a language model's replicas are, and where their answers may differ.
std::string engines_text(const ServingPlan& plan, const PictureOptions& options) {
  std::map<std::string, std::map<std::string, int>> gpus;  // by service and configuration
  std::map<std::string, std::set<std::string>> precisions;
  std::map<std::string, int> groups;  // by configuration
  for (const PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& one : gpu.instances) {
      if (one.engine.empty()) continue;
      ++gpus[one.service][one.engine.configuration];
      groups[one.engine.configuration] = one.group;
      const std::string& precision = one.engine.precision;
      precisions[one.service].insert(precision.empty() ? "not said" : precision);
    }
  std::vector<TextRow> rows{{"engines of", "replicas", "measured as"}};
  std::string differ;
  for (const auto& [service, engines] : gpus) {
    if (static_cast<int>(rows.size()) > options.max_gpus) break;
    for (const auto& [engine, count] : engines)
      rows.push_back({fit(service, std::min(24, columns(service))),
                      fmt::format("{}", count / groups[engine]), utf8(printable(engine))});
    if (precisions[service].size() > 1)
      differ +=
          fmt::format("~ {}: replicas differ in precision ({}), and so may their answers\n",
                      utf8(printable(service)), utf8(printable(joined(precisions[service], ", "))));
  }
  return rows.size() == 1 ? "" : aligned(rows) + differ + "\n";
}

// What is promised of sets of models: how many an instance holds, and what the others take.
std::string sets_text(const ServingPlan& plan, const PictureOptions& options) {
  std::vector<TextRow> rows{{"models of", "there are", "held", "cold", "cold ms", "promised ms"}};
  for (const PlannedService& s : plan.services) {
    if (!s.models || !s.set_outlook || static_cast<int>(rows.size()) > options.max_gpus) continue;
    const Millis cold = s.models->cold;
    rows.push_back(
        {fit(s.name, std::min(24, columns(s.name))), fmt::format("{}", s.models->models.size()),
         fmt::format("{}", s.set_outlook->held),
         fmt::format("{:.3g} %", 100 * s.set_outlook->cold_share),
         number_text(s.set_outlook->cold.value), cold.value > 0 ? number_text(cold.value) : "-"});
  }
  return rows.size() == 1 ? "" : aligned(rows) + "\n";
}

}  // namespace

// Whose queues the promise is made for.
std::string server_text(plan::Dispatch dispatch) {
  switch (dispatch) {
    case plan::Dispatch::pooled:
      return "a pooled server: one queue per service over all its instances";
    case plan::Dispatch::paced:
      return "a paced server: a queue per instance, requests go where they are done first";
    case plan::Dispatch::shared_queue:
      return "shared queues: one per instance, its processes take what waits; requests split at "
             "random";
    case plan::Dispatch::per_process:
      break;
  }
  return "a queue (port) per process; requests split at random";
}

std::string plan_text(const ServingPlan& plan, const hw::Catalogue& catalogue,
                      const PictureOptions& options) {
  const Painter painter(options.colour);
  const auto lines = [&](const std::string& line) { return folded(line, options.width, 4); };
  std::string text = gpus_text(plan, catalogue, options);
  text += fmt::format("\n{}\n{}{}{}", services_text(plan, options), tokens_text(plan, options),
                      engines_text(plan, options), sets_text(plan, options));
  text += painter.bold(lines(objective_text(plan.objective)));
  text += lines(fmt::format("planner {}, SLO rule {}",
                            plan.planner.empty() ? "unknown" : utf8(printable(plan.planner)),
                            to_string(plan.rule)));
  text += lines(fmt::format("made for {}", server_text(plan.rule.dispatch)));
  for (const std::string& overload : overload_texts(plan)) text += lines(overload);
  if (plan.survive > 0) text += lines("keeps every SLO when any one GPU is lost");
  if (plan::shares_gpus(plan)) text += lines(plan::kSharesJudged);
  std::string effort =
      fmt::format("planned in {} ms of CPU time", number_text(plan.stats.planning_ms));
  if (plan.stats.capacity_ms > 0)
    effort += fmt::format(" after {} ms for the capacities", number_text(plan.stats.capacity_ms));
  if (plan.stats.nodes > 0)
    effort += fmt::format("; {}", count_text(plan.stats.nodes, "search node"));
  text += lines(effort);
  if (const std::string predicted = plan::predictions_text(plan); !predicted.empty())
    text += lines("~ " + utf8(printable(predicted)));
  if (options.explain && !plan.explanation.empty()) {
    text += "\nwhy:\n";
    for (const std::string& line : plan.explanation) text += lines("  - " + utf8(printable(line)));
  }
  return text;
}

std::string advice_text(const std::vector<plan::SloAdvice>& advice, int width) {
  std::string text;
  for (const plan::SloAdvice& one : advice) {
    const bool late = one.eased == plan::Eased::percentile;
    std::string line = fmt::format("{}: ", utf8(printable(one.service)));
    if (late)
      line += fmt::format("p{:g} is promised", one.percentile);
    else
      line += fmt::format("the {} is {:.2g} x {} ({} ms)",
                          one.eased == plan::Eased::ttft ? "TTFT" : "SLO", one.slo / one.least,
                          one.language               ? "that of a request alone"
                          : one.least == one.fastest ? "the fastest batch"
                                                     : "the least under this SLO rule",
                          number_text(one.least.value));
    for (const plan::SloOption& option : one.options)
      line += fmt::format(
          "{} with {} {} {}", &option == &one.options.front() ? ";" : ",",
          late ? fmt::format("p{:g}", option.percentile) : number_text(option.slo.value) + " ms",
          count_text(option.gpus, "GPU"), option.gpus == 1 ? "does" : "do");
    text += folded(line + fmt::format(", not {}", one.gpus), width, 4);
  }
  return text;
}

}  // namespace partita::forms
