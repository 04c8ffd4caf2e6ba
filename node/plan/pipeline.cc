#include "plan/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "plan/terms.h"

namespace partita::plan {
namespace {

// Which step writes a tensor.
Result<std::map<std::string, std::size_t>> writers_of(const PipelineTerms& pipeline) {
  std::map<std::string, std::size_t> writers;
  for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
    const PipelineStep& step = pipeline.steps[s];
    if (step.inputs.empty() || step.outputs.empty())
      return bad_input("",
                       fmt::format("step '{}' needs an input_map and an output_map", step.service));
    for (const auto& [model, tensor] : step.outputs)
      if (const auto [at, fresh] = writers.emplace(tensor, s); !fresh)
        return bad_input("", fmt::format("steps '{}' and '{}' both write the tensor '{}'",
                                         pipeline.steps[at->second].service, step.service, tensor));
  }
  return writers;
}

// Steps whose inputs are there go first, in the order in which they are listed.
Result<std::vector<std::size_t>> order_of(const PipelineTerms& pipeline,
                                          const std::vector<std::vector<std::size_t>>& after) {
  std::vector<std::size_t> order;
  const auto done = [&](std::size_t step) { return std::ranges::count(order, step) > 0; };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < after.size(); ++s) {
      if (done(s) || !std::ranges::all_of(after[s], done)) continue;
      order.push_back(s);
      moved = true;
    }
  }
  for (std::size_t s = 0; s < after.size(); ++s)
    if (!done(s))
      return bad_input("", fmt::format("step '{}' waits for what it is itself needed for: a cycle",
                                       pipeline.steps[s].service));
  return order;
}

// How often a step is asked for, and by which fan-out, is that of all that it reads.
Result<void> count_requests(const PipelineTerms& pipeline,
                            const std::map<std::string, std::size_t>& writers,
                            PipelineGraph& graph) {
  const std::size_t whole = pipeline.steps.size();
  graph.group.assign(whole, whole);
  graph.requests.assign(whole, 1);
  for (const std::size_t s : graph.order) {
    const PipelineStep& step = pipeline.steps[s];
    bool first = true;
    for (const auto& [model, tensor] : step.inputs) {
      const auto writer = writers.find(tensor);
      const bool outside = writer == writers.end();
      const std::size_t group = outside ? whole : graph.group[writer->second];
      if (!first && group != graph.group[s])
        return bad_input("", fmt::format("step '{}' reads '{}', of which there are not as many as "
                                         "of its other inputs",
                                         step.service, tensor));
      first = false;
      graph.group[s] = group;
      graph.requests[s] = outside ? 1 : graph.requests[writer->second];
    }
    if (step.fan_out == 1) continue;
    if (graph.group[s] != whole)
      return bad_input(
          "", fmt::format("step '{}' fans out what has been fanned out before", step.service));
    graph.group[s] = s;
    graph.requests[s] *= step.fan_out;
  }
  return {};
}

}  // namespace

bool same_graph(const PipelineTerms& one, const PipelineTerms& other) {
  const auto without_share = [](PipelineStep step) {
    step.share = {};
    return step;
  };
  return std::ranges::equal(one.steps, other.steps, {}, without_share, without_share);
}

std::string to_string(const PipelineTerms& pipeline) {
  std::string text;
  for (const PipelineStep& step : pipeline.steps)
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : " -> ",
                    step.fan_out == 1 ? "" : fmt::format("{:g} x ", step.fan_out), step.service);
  return text;
}

Result<PipelineGraph> graph_of(const PipelineTerms& pipeline) {
  if (pipeline.steps.empty()) return bad_input("", "a pipeline needs steps");
  const auto writers = TRY(writers_of(pipeline));
  PipelineGraph graph;
  for (const PipelineStep& step : pipeline.steps) {
    std::vector<std::size_t>& after = graph.after.emplace_back();
    for (const auto& [model, tensor] : step.inputs)
      if (const auto writer = writers.find(tensor); writer != writers.end())
        after.push_back(writer->second);
    std::ranges::sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }
  graph.order = TRY(order_of(pipeline, graph.after));
  TRY(count_requests(pipeline, writers, graph));
  return graph;
}

Rps rate_from_pipelines(const std::vector<Terms>& services, const std::string& name) {
  Rps rate{0};
  for (const Terms& service : services) {
    if (!service.pipeline) continue;
    const auto graph = graph_of(*service.pipeline);
    CHECK(graph.has_value());
    for (std::size_t s = 0; s < graph->requests.size(); ++s)
      if (service.pipeline->steps[s].service == name)
        rate = rate + service.rate * graph->requests[s];
  }
  return rate;
}

}  // namespace partita::plan
