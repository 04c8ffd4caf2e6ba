#include "serve/worker/model_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/parse_number.h"
#include "base/text_proto.h"
#include "serve/wire/frames.h"

namespace partita::serve {
namespace {

const std::vector<std::string> kKnown = {"name",
                                         "platform",
                                         "backend",
                                         "runtime",
                                         "version_policy",
                                         "max_batch_size",
                                         "input",
                                         "output",
                                         "batch_input",
                                         "batch_output",
                                         "optimization",
                                         "dynamic_batching",
                                         "sequence_batching",
                                         "ensemble_scheduling",
                                         "instance_group",
                                         "default_model_filename",
                                         "cc_model_filenames",
                                         "metric_tags",
                                         "parameters",
                                         "model_warmup",
                                         "model_operations",
                                         "model_transaction_policy",
                                         "model_repository_agents",
                                         "response_cache",
                                         "model_metrics"};
const std::vector<std::string> kPlanned = {"dynamic_batching", "instance_group", "optimization",
                                           "version_policy"};

class ConfigTaker {
 public:
  explicit ConfigTaker(std::string file) : file_(std::move(file)) {}

  Result<ModelConfig> take(const ProtoField& all) {
    for (const ProtoField& field : all.fields) TRY(take_field(field));
    for (const ProtoField& field : all.fields)
      if (field.name == "model_warmup") take_usual(field);
    return std::move(config_);
  }

 private:
  tl::unexpected<Error> refused(const ProtoField& at, const std::string& why) const {
    return bad_input(fmt::format("{}:{}", file_, at.line), fmt::format("'{}' {}", at.name, why));
  }

  Result<void> take_field(const ProtoField& field) {
    const std::string& name = field.name;
    if (std::ranges::find(kKnown, name) == kKnown.end())
      return refused(field, "is unknown" + did_you_mean(name, kKnown));
    if (name == "ensemble_scheduling" || (name == "platform" && field.value == "ensemble"))
      return refused(field,
                     "describes an ensemble: a services file takes it, pipeline: {config: FILE}");
    if ((name == "platform" && field.value != "onnxruntime_onnx" && !field.value.empty()) ||
        (name == "backend" && field.value != "onnxruntime" && !field.value.empty()))
      return refused(field, fmt::format("is {}; onnxruntime is what runs here, others behind "
                                        "--forward",
                                        field.value));
    if (name == "batch_input" || name == "batch_output")
      return refused(field, "is not served: inputs come with the request");
    if (name == "max_batch_size") {
      config_.max_batch = parse_number<int>(field.value);
      if (!config_.max_batch || *config_.max_batch < 0)
        return refused(field, "is a number from 0 on");
      config_.max_batch = std::min(*config_.max_batch, kMaxLinkBatch);
    }
    if (name == "default_model_filename") {
      config_.file = field.value;
      if (field.value.empty() || field.value.find('/') != std::string::npos)
        return refused(field, "is the name of a file in the version's folder");
    }
    if (std::ranges::find(kPlanned, name) != kPlanned.end() &&
        std::ranges::find(config_.left, name) == config_.left.end())
      config_.left.push_back(name);
    if (name == "response_cache") config_.cache = text_of(field, "enable") == "true";
    if (name == "input") return take_input(field);
    if (name == "sequence_batching") return take_sequences(field);
    return {};
  }

  Result<void> take_input(const ProtoField& field) {
    const std::string name = text_of(field, "name");
    if (name.empty()) return refused(field, "has no name");
    std::vector<std::int64_t> shape;
    for (const ProtoField& dim : field.fields) {
      if (dim.name != "dims") continue;
      const auto size = parse_number<std::int64_t>(dim.value);
      if (!size || (*size < 1 && *size != kOpen))
        return refused(dim, "are numbers from 1 on, or -1");
      if (shape.size() == kMaxDimensions) return refused(dim, "are too many");
      shape.push_back(*size);
    }
    if (field_of(field, "reshape")) return {};  // other sizes than the model's
    if (!shape.empty() && !config_.shapes.emplace(name, std::move(shape)).second)
      return refused(field, fmt::format("'{}' is said twice", name));
    return {};
  }

  Result<void> take_sequences(const ProtoField& field) {
    if (const ProtoField* control = field_of(field, "control_input"))
      return refused(*control,
                     "is for models that keep their state themselves, which are not "
                     "served");
    for (const ProtoField& state : field.fields) {
      if (state.name != "state") continue;
      const std::string input = text_of(state, "input_name"),
                        output = text_of(state, "output_name");
      if (input.empty() || output.empty() || !config_.states.emplace(input, output).second)
        return refused(state, "has an input_name of its own and an output_name");
    }
    return {};
  }

  // Sizes with which a warm-up runs are usual ones.
  void take_usual(const ProtoField& warmup) {
    for (const ProtoField& input : warmup.fields) {
      const ProtoField* value = input.name == "inputs" ? field_of(input, "value") : nullptr;
      const auto shape = config_.shapes.find(text_of(input, "key"));
      if (!value || shape == config_.shapes.end()) continue;
      std::size_t at = 0;
      for (const ProtoField& dim : value->fields) {
        if (dim.name != "dims" || at >= shape->second.size()) continue;
        const auto size = parse_number<std::int64_t>(dim.value);
        std::int64_t& open = shape->second[at++];
        if (open == kOpen && size && *size > 1 && *size < (std::int64_t{1} << 31)) open = -*size;
      }
    }
  }

  std::string file_;
  ModelConfig config_;
};

}  // namespace

Result<ModelConfig> parse_model_config(const std::string& file, std::string_view text) {
  const auto read = TRY(parse_text_proto(file, text));
  return ConfigTaker(file).take(read);
}

}  // namespace partita::serve
