#include "forms/pipeline_form.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::forms {
namespace {

constexpr Range kFanOuts{.high = plan::kMostFanOut, .above = true};

void describe_step(Form& f, plan::PipelineStep& step) {
  f.closed();
  f.name("model_name", step.service, "a service of the same file, or a model that is measured");
  form::texts(f, "input_map", step.inputs, "inputs of the model: tensors of the pipeline");
  form::texts(f, "output_map", step.outputs, "outputs of the model: tensors of the pipeline");
  f.optional(step.fan_out != 1)
      .number("fan_out", step.fan_out, kFanOuts,
              "requests for one of what it reads, the mean of a Poisson law; missing: exactly one");
  f.optional(step.share.value > 0)
      .number("share_ms", step.share.value, kNotNegative, "of the SLO, as planned");
}

// Why a service cannot be a step.
std::string unfit(const plan::Terms& service) {
  if (service.pipeline) return "is a pipeline itself";
  if (service.tokens) return "is of kind llm";
  if (service.models) return "is a set of models";
  if (service.min_replicas < 1) return "has no instance";
  return "";
}

}  // namespace

void describe_pipeline(Form& f, plan::PipelineTerms& pipeline) {
  f.closed();
  f.list("steps", pipeline.steps, describe_step, {.most = plan::kMostSteps},
         "models, each behind those whose outputs it reads");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  if (const auto graph = plan::graph_of(pipeline); !graph)
    in->refuse("steps", graph.error().message);
}

std::optional<MemberRefusal> add_members(std::vector<plan::Terms>& services) {
  const std::size_t asked = services.size();
  for (std::size_t p = 0; p < asked; ++p) {
    if (!services[p].pipeline) continue;
    const plan::Terms pipeline = services[p];
    for (const plan::PipelineStep& step : pipeline.pipeline->steps) {
      auto found = std::ranges::find(services, step.service, &plan::Terms::name);
      if (found == services.end()) {
        services.push_back({.name = step.service,
                            .model = step.service,
                            .percentile = 0,
                            .line = pipeline.line,
                            .member = true});
        found = services.end() - 1;
      }
      if (const std::string why = unfit(*found); !why.empty())
        return MemberRefusal{pipeline.line, fmt::format("pipeline '{}': its step '{}' {}",
                                                        pipeline.name, step.service, why)};
      if (!found->member) continue;
      found->slo = std::max(found->slo, pipeline.slo);
      found->percentile = std::max(found->percentile, pipeline.percentile);
      found->traffic.headroom = std::max(found->traffic.headroom, pipeline.traffic.headroom);
    }
  }
  std::vector<Rps> more;
  for (const plan::Terms& service : services)
    more.push_back(plan::rate_from_pipelines(services, service.name));
  for (std::size_t s = 0; s < services.size(); ++s) services[s].rate += more[s];
  return std::nullopt;
}

std::vector<plan::Terms> own_demands(const std::vector<plan::Terms>& services) {
  std::vector<plan::Terms> own;
  for (plan::Terms service : services) {
    if (service.member) continue;
    if (!service.pipeline) service.rate -= plan::rate_from_pipelines(services, service.name);
    own.push_back(std::move(service));
  }
  return own;
}

}  // namespace partita::forms
