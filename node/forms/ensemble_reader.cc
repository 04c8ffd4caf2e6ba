#include "forms/ensemble_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/nearest.h"
#include "base/text_proto.h"

namespace partita::forms {
namespace {

const std::vector<std::string> kKnown = {"name",
                                         "platform",
                                         "backend",
                                         "version_policy",
                                         "max_batch_size",
                                         "input",
                                         "output",
                                         "optimization",
                                         "ensemble_scheduling",
                                         "parameters",
                                         "metric_tags",
                                         "model_warmup",
                                         "model_metrics",
                                         "response_cache",
                                         "dynamic_batching",
                                         "sequence_batching",
                                         "instance_group",
                                         "batch_input",
                                         "batch_output",
                                         "model_operations",
                                         "model_repository_agents",
                                         "model_transaction_policy"};
const std::vector<std::string> kStepKeys = {"model_name", "model_version", "input_map",
                                            "output_map", "model_namespace"};
// What it says where it is there; empty: only what follows it tells.
const std::map<std::string, std::string, std::less<>> kRefused = {
    {"dynamic_batching", "is not for an ensemble: its steps are batched"},
    {"sequence_batching", "is not for an ensemble: no step of a pipeline has state"},
    {"instance_group", "is not for an ensemble: its steps have instances"},
    {"batch_input", "is not served: inputs come with the request"},
    {"batch_output", "is not served: outputs go as the steps give them"},
    {"model_operations", "loads libraries, which is not done here"},
    {"model_repository_agents", "changes models as they are loaded, which is not done here"}};

class EnsembleTaker {
 public:
  explicit EnsembleTaker(std::string file) : file_(std::move(file)) {}

  Result<plan::PipelineTerms> take(const ProtoField& all) {
    for (const ProtoField& field : all.fields) TRY(take_field(field));
    if (text_of(all, "platform") != "ensemble")
      return refused(all, "is no ensemble's: platform: \"ensemble\" is wanted");
    if (pipeline_.steps.empty()) return refused(all, "has no step in 'ensemble_scheduling'");
    TRY(join_tensors());
    if (const auto graph = plan::graph_of(pipeline_); !graph)
      return bad_input(file_, graph.error().message);
    return std::move(pipeline_);
  }

 private:
  tl::unexpected<Error> refused(const ProtoField& at, const std::string& why) const {
    const std::string what = at.name.empty() ? "the configuration" : "'" + at.name + "'";
    return bad_input(fmt::format("{}:{}", file_, at.line), what + " " + why);
  }

  Result<void> take_field(const ProtoField& field) {
    const std::string& name = field.name;
    if (std::ranges::find(kKnown, name) == kKnown.end())
      return refused(field, "is unknown" + did_you_mean(name, kKnown));
    if (const auto why = kRefused.find(name); why != kRefused.end())
      return refused(field, why->second);
    if (name == "response_cache" && text_of(field, "enable") == "true")
      return refused(field, "is kept for services, not for a pipeline: let its steps have it");
    if (name == "model_transaction_policy" && text_of(field, "decoupled") == "true")
      return refused(field, "is decoupled: a pipeline answers each request once");
    if (name == "input" || name == "output") return take_tensor(field);
    if (name != "ensemble_scheduling") return {};
    for (const ProtoField& step : field.fields) {
      if (step.name != "step")
        return refused(step, "is unknown" + did_you_mean(step.name, {"step"}));
      if (auto took = take_step(step); !took) return took;
    }
    return {};
  }

  Result<void> take_tensor(const ProtoField& field) {
    const std::string name = text_of(field, "name");
    if (name.empty()) return refused(field, "has no name");
    for (const char* key : {"optional", "allow_ragged_batch", "is_shape_tensor"})
      if (const ProtoField* said = field_of(field, key); said && said->value == "true")
        return refused(*said, fmt::format("is not kept: '{}' comes with each request, as its "
                                          "steps take it",
                                          name));
    if (const ProtoField* other = field_of(field, "reshape"))
      return refused(*other, fmt::format("is not kept: '{}' has the sizes of its steps", name));
    auto& tensors = field.name == "input" ? inputs_ : outputs_;
    if (!tensors.emplace(name, field).second)
      return refused(field, fmt::format("'{}' is said twice", name));
    return {};
  }

  // Empty names are no tensors; a name of the model's has one tensor.
  Result<void> take_map(const ProtoField& field, std::map<std::string, std::string>& map) {
    const std::string key = text_of(field, "key"), value = text_of(field, "value");
    if (key.empty() || value.empty())
      return refused(field, "has a key, a tensor of the model, and a value, one of the ensemble");
    if (!map.emplace(key, value).second) return refused(field, fmt::format("has '{}' twice", key));
    return {};
  }

  Result<void> take_step(const ProtoField& field) {
    plan::PipelineStep step;
    step.service = text_of(field, "model_name");
    if (step.service.empty()) return refused(field, "has no model_name");
    if (pipeline_.steps.size() == plan::kMostSteps)
      return refused(field, fmt::format("is one too many: {} are the most", plan::kMostSteps));
    for (const ProtoField& said : field.fields) {
      const std::string& name = said.name;
      if (std::ranges::find(kStepKeys, name) == kStepKeys.end())
        return refused(said, "is unknown" + did_you_mean(name, kStepKeys));
      if (name == "model_version" && said.value != "-1")
        return refused(said, fmt::format("is {}: a step is a service, which has the version that "
                                         "its workers load; only -1 is kept",
                                         said.value));
      if (name == "model_namespace" && !said.value.empty())
        return refused(said, "is not kept: services have one name each");
      if (name != "input_map" && name != "output_map") continue;
      auto took = take_map(said, name == "input_map" ? step.inputs : step.outputs);
      if (!took) return took;
    }
    if (step.inputs.empty() || step.outputs.empty())
      return refused(field, fmt::format("'{}' needs an input_map and an output_map", step.service));
    lines_.push_back(field);
    pipeline_.steps.push_back(std::move(step));
    return {};
  }

  // A pipeline's inputs are what no step writes, its outputs what no step reads: whether those are
  // the ensemble's.
  Result<void> join_tensors() {
    std::map<std::string, std::size_t> reads, writes;  // by tensor: a step
    for (std::size_t s = 0; s < pipeline_.steps.size(); ++s) {
      for (const auto& [name, tensor] : pipeline_.steps[s].inputs) reads.emplace(tensor, s);
      for (const auto& [name, tensor] : pipeline_.steps[s].outputs) writes.emplace(tensor, s);
    }
    for (const auto& [tensor, step] : reads)
      if (!writes.contains(tensor) && !inputs_.contains(tensor))
        return refused(lines_[step], fmt::format("'{}' reads '{}', which no step writes and no "
                                                 "input is",
                                                 pipeline_.steps[step].service, tensor));
    for (const auto& [tensor, field] : inputs_)
      if (!reads.contains(tensor) || writes.contains(tensor))
        return refused(field, fmt::format("'{}' is {}", tensor,
                                          writes.contains(tensor) ? "what a step writes, too"
                                                                  : "read by no step"));
    for (const auto& [tensor, field] : outputs_) {
      if (!writes.contains(tensor))
        return refused(field, fmt::format("'{}' is written by no step", tensor));
      if (const auto reader = reads.find(tensor); reader != reads.end())
        return refused(field, fmt::format("'{}' is read by step '{}', too: of a pipeline only what "
                                          "no step reads is the answer",
                                          tensor, pipeline_.steps[reader->second].service));
    }
    if (outputs_.empty()) return bad_input(file_, "the ensemble has no output");
    for (std::size_t s = 0; s < pipeline_.steps.size(); ++s) {
      std::erase_if(pipeline_.steps[s].outputs, [&](const auto& entry) {
        return !reads.contains(entry.second) && !outputs_.contains(entry.second);
      });
      if (pipeline_.steps[s].outputs.empty())
        return refused(lines_[s], fmt::format("'{}' gives nothing that is read or asked for",
                                              pipeline_.steps[s].service));
    }
    return {};
  }

  std::string file_;
  plan::PipelineTerms pipeline_;
  std::vector<ProtoField> lines_;  // by step
  std::map<std::string, ProtoField> inputs_, outputs_;
};

}  // namespace

Result<plan::PipelineTerms> parse_ensemble(const std::string& file, std::string_view text) {
  const auto read = TRY(parse_text_proto(file, text));
  return EnsembleTaker(file).take(read);
}

}  // namespace partita::forms
