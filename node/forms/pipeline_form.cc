#include "forms/pipeline_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

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

// ---- who asks for how much

std::vector<plan::Terms> pipelines_of(const std::vector<plan::Terms>& services) {
  std::vector<plan::Terms> pipelines;
  for (const plan::Terms& service : services)
    if (service.pipeline) pipelines.push_back(service);
  return pipelines;
}

// Those of the pipelines that have the service as a step.
std::vector<plan::Terms> askers(const std::vector<plan::Terms>& pipelines,
                                const std::string& service) {
  std::vector<plan::Terms> found;
  for (const plan::Terms& pipeline : pipelines)
    if (std::ranges::any_of(pipeline.pipeline->steps, [&](const plan::PipelineStep& step) {
          return step.service == service;
        }))
      found.push_back(pipeline);
  return found;
}

Rps asked_at(std::vector<plan::Terms> pipelines, const std::string& name, int minute) {
  for (plan::Terms& pipeline : pipelines)
    if (!pipeline.traffic.rates.empty())
      pipeline.rate = plan::rate_at(pipeline.traffic.rates, minute);
  return plan::rate_from_pipelines(pipelines, name);
}

// A step's rate, and its rates of the day, become those of its own clients and of all pipelines.
void ask_more(plan::Terms& service, const std::vector<plan::Terms>& all) {
  const std::vector<plan::Terms> pipelines = askers(all, service.name);
  if (pipelines.empty()) return;
  std::set<int> minutes;
  const auto note = [&](const plan::Terms& terms) {
    for (const plan::RateAt& entry : terms.traffic.rates) minutes.insert(entry.minute);
  };
  note(service);
  for (const plan::Terms& pipeline : pipelines) note(pipeline);
  std::vector<plan::RateAt> rates;
  for (const int minute : minutes)
    rates.push_back(
        {minute, (service.traffic.rates.empty() ? service.rate
                                                : plan::rate_at(service.traffic.rates, minute)) +
                     asked_at(pipelines, service.name, minute)});
  service.traffic.rates = std::move(rates);
  service.rate += plan::rate_from_pipelines(pipelines, service.name);
}

// The way back. Rates that changed with those of pipelines alone are the same again.
void ask_less(plan::Terms& service, const std::vector<plan::Terms>& all) {
  static constexpr double kRounding = 1e-9;
  const std::vector<plan::Terms> pipelines = askers(all, service.name);
  if (pipelines.empty()) return;
  const Rps whole = service.rate;
  service.rate -= plan::rate_from_pipelines(pipelines, service.name);
  if (service.member || service.rate <= whole * kRounding) service.rate = Rps{0};
  if (service.member) service.traffic.rates.clear();
  std::vector<plan::RateAt> rates;
  const auto differ = [](Rps one, Rps other, Rps of) {
    return std::abs(one.value - other.value) > kRounding * of.value;
  };
  for (const plan::RateAt& entry : service.traffic.rates) {
    const Rps own = entry.rate - asked_at(pipelines, service.name, entry.minute);
    if (rates.empty() || differ(rates.back().rate, own, entry.rate))
      rates.push_back({entry.minute, own});
  }
  if (rates.size() == 1 && !differ(rates[0].rate, service.rate, service.rate)) rates.clear();
  service.traffic.rates = std::move(rates);
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
  const std::vector<plan::Terms> pipelines = pipelines_of(services);
  if (pipelines.empty()) return std::nullopt;
  for (plan::Terms& service : services)
    if (!service.pipeline) ask_more(service, pipelines);
  return std::nullopt;
}

std::vector<plan::Terms> at_own_rates(std::vector<plan::Terms> services) {
  const std::vector<plan::Terms> pipelines = pipelines_of(services);
  for (plan::Terms& service : services)
    if (!service.pipeline) ask_less(service, pipelines);
  return services;
}

std::vector<plan::Terms> own_demands(std::vector<plan::Terms> services) {
  services = at_own_rates(std::move(services));
  std::erase_if(services, [](const plan::Terms& service) { return service.member; });
  return services;
}

}  // namespace partita::forms
