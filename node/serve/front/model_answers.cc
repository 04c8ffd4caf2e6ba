#include "serve/front/model_answers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/form.h"
#include "base/parse_number.h"
#include "base/proto_scan.h"
#include "serve/oip/grpc_messages.h"
#include "serve/wire/items.h"

namespace partita::serve {
namespace {

constexpr auto kCompact = Form::Style::compact;
constexpr long kSequenceIdleUs = kSequenceIdle / 1000;

// What Triton's configuration calls a data type, and its number there; in the order of DataType.
struct ConfigType {
  const char* name;
  std::uint64_t number;
};
constexpr ConfigType kConfigTypes[] = {{"TYPE_BOOL", 1},   {"TYPE_UINT8", 2},  {"TYPE_UINT16", 3},
                                       {"TYPE_UINT32", 4}, {"TYPE_UINT64", 5}, {"TYPE_INT8", 6},
                                       {"TYPE_INT16", 7},  {"TYPE_INT32", 8},  {"TYPE_INT64", 9},
                                       {"TYPE_FP16", 10},  {"TYPE_FP32", 11},  {"TYPE_FP64", 12},
                                       {"TYPE_BF16", 14},  {"TYPE_STRING", 13}};
static_assert(std::size(kConfigTypes) == kDataTypes);
const ConfigType& config_type(DataType type) { return kConfigTypes[static_cast<int>(type)]; }

using Scheduling = ServedConfig::Scheduling;

const std::string& platform_of(const ServedConfig& config) {
  static const std::string kEnsemble = "ensemble";
  return config.scheduling == Scheduling::pipeline ? kEnsemble : config.model.platform;
}

int max_batch_of(const ServedConfig& config) { return config.rows ? config.model.max_batch : 0; }

// Of the whole tensor where not all have rows in front; the metadata says the same.
std::vector<std::int64_t> dims_of(const ServedConfig& config, const TensorSpec& tensor) {
  if (config.rows) return tensor.shape;
  return whole_shape(tensor, tensor.shape, -1);
}

// ---- durations of the statistics, in the order and under the names of Triton's

struct Duration {
  const char* name;
  std::uint64_t count, ns;
};
// Inputs and outputs are not copied: their times are 0.
std::vector<Duration> durations_of(const ServiceStatistics& is) {
  return {{"success", is.success_count, is.success_ns},
          {"fail", is.fail_count, is.fail_ns},
          {"queue", is.queue_count, is.queue_ns},
          {"compute_input", is.compute_count, 0},
          {"compute_infer", is.compute_count, is.compute_ns},
          {"compute_output", is.compute_count, 0},
          {"cache_hit", is.hit_count, is.hit_ns},
          {"cache_miss", is.miss_count, is.miss_ns}};
}

// ---- JSON

void describe_state(Form& f, const ModelState& state) {
  f.told("name", state.of.name);
  f.told("version", state.of.version);
  f.told("state", state.unready.empty() ? "READY" : "UNAVAILABLE");
  f.told("reason", state.unready);
}

void describe_kept(Form& f, const KeptAnswers& kept) {
  f.told("from", kept.from);
  f.told("memory_mib", kept.terms.memory);
  f.told("ttl_s", kept.terms.ttl);
  f.told("shared", kept.terms.shared);
  f.told("answers", static_cast<std::uint64_t>(kept.answers));
  f.told("bytes", static_cast<std::uint64_t>(kept.bytes));
  if (!kept.unfit.empty()) f.told("none_kept", kept.unfit);
}

void describe_statistics(Form& f, const ModelStatistics& one) {
  f.told("name", one.of.name);
  f.told("version", one.of.version);
  f.told("last_inference", one.is.last_inference_ms);
  f.told("inference_count", one.is.inference_count);
  f.told("execution_count", one.is.execution_count);
  f.told_object("inference_stats", [&](Form& stats) {
    for (const Duration& each : durations_of(one.is))
      stats.told_object(each.name, [&](Form& inner) {
        inner.told("count", each.count);
        inner.told("ns", each.ns);
      });
  });
  f.told("batch_stats", std::vector<int>());
  if (one.is.kept)
    f.told_object("response_cache", [&](Form& kept) { describe_kept(kept, *one.is.kept); });
}

void describe_tensor(Form& f, const ServedConfig& config, const TensorSpec& tensor, bool input) {
  f.told("name", tensor.name);
  f.told("data_type", config_type(tensor.type).name);
  if (input) f.told("format", "FORMAT_NONE");
  std::vector<long> dims;
  for (const std::int64_t size : dims_of(config, tensor)) dims.push_back(size);
  f.told("dims", dims);
  if (!input) f.told("label_filename", "");
  f.told("is_shape_tensor", false);
  if (!input) return;
  f.told("allow_ragged_batch", false);
  f.told("optional", false);
}

void describe_map(Form& f, std::string_view key, const std::map<std::string, std::string>& names) {
  f.told_object(key, [&](Form& map) {
    for (const auto& [of_model, tensor] : names) map.told(of_model, tensor);
  });
}

void describe_step(Form& f, const plan::PipelineStep& step) {
  f.told("model_name", step.service);
  f.told("model_version", -1);
  describe_map(f, "input_map", step.inputs);
  describe_map(f, "output_map", step.outputs);
}

void describe_scheduling(Form& f, const ServedConfig& config) {
  switch (config.scheduling) {
    case Scheduling::none:
      return;
    case Scheduling::batches:
      return f.told_object("dynamic_batching", [](Form& batching) {
        batching.told("max_queue_delay_microseconds", 0);
        batching.told("preserve_ordering", false);
      });
    case Scheduling::sequences:
      return f.told_object("sequence_batching", [](Form& batching) {
        batching.told_object("oldest",
                             [](Form& oldest) { oldest.told("preserve_ordering", true); });
        batching.told("max_sequence_idle_microseconds", kSequenceIdleUs);
      });
    case Scheduling::pipeline:
      return f.told_object("ensemble_scheduling", [&](Form& ensemble) {
        ensemble.rows("step", config.pipeline.steps, describe_step, {});
      });
  }
}

void describe_config(Form& f, const ServedConfig& config) {
  f.told("name", config.name);
  f.told("platform", platform_of(config));
  f.told("backend", config.scheduling == Scheduling::pipeline ? "" : config.model.platform);
  f.told_object("version_policy", [&](Form& policy) {
    policy.told_object("specific", [&](Form& specific) {
      specific.told("versions", std::vector<long>(config.versions.begin(), config.versions.end()));
    });
  });
  f.told("max_batch_size", max_batch_of(config));
  const auto tensors = [&](std::string_view key, const std::vector<TensorSpec>& all, bool input) {
    f.rows(key, all,
           [&](Form& one, const TensorSpec& is) { describe_tensor(one, config, is, input); }, {});
  };
  tensors("input", config.model.inputs, true);
  tensors("output", config.model.outputs, false);
  describe_scheduling(f, config);
  f.told_object("model_transaction_policy", [](Form& policy) { policy.told("decoupled", false); });
  f.told_object("response_cache", [&](Form& cache) { cache.told("enable", config.cache); });
}

// ---- messages

std::string encode_duration(const Duration& duration) {
  std::string out;
  append_field(out, 1, duration.count);
  append_field(out, 2, duration.ns);
  return out;
}

std::string encode_tensor(const ServedConfig& config, const TensorSpec& tensor, bool input) {
  std::string out, dims;
  append_field(out, 1, tensor.name);
  append_field(out, 2, config_type(tensor.type).number);
  for (const std::int64_t size : dims_of(config, tensor))
    append_varint(dims, static_cast<std::uint64_t>(size));
  append_field(out, input ? 4 : 3, dims);
  return out;
}

std::string encode_step(const plan::PipelineStep& step) {
  std::string out;
  append_field(out, 1, step.service);
  append_field(out, 2, ~std::uint64_t{0});  // the version -1
  const auto add = [&](std::uint32_t field, const std::map<std::string, std::string>& names) {
    for (const auto& [of_model, tensor] : names) {
      std::string entry;
      append_field(entry, 1, of_model);
      append_field(entry, 2, tensor);
      append_field(out, field, entry);
    }
  };
  add(3, step.inputs);
  add(4, step.outputs);
  return out;
}

void append_scheduling(std::string& out, const ServedConfig& config) {
  std::string how;
  switch (config.scheduling) {
    case Scheduling::none:
      return;
    case Scheduling::batches:
      return append_field(out, 11, "");
    case Scheduling::sequences: {
      std::string oldest;
      append_field(oldest, 4, std::uint64_t{1});
      append_field(how, 1, std::uint64_t{kSequenceIdleUs});
      append_field(how, 4, oldest);
      return append_field(out, 13, how);
    }
    case Scheduling::pipeline:
      for (const plan::PipelineStep& step : config.pipeline.steps)
        append_field(how, 1, encode_step(step));
      return append_field(out, 15, how);
  }
}

}  // namespace

std::vector<ModelState> model_states(const Backend& backend, const MaySee& may_see, bool ready) {
  std::vector<ModelState> all;
  for (const std::string& service : backend.services()) {
    const bool is_ready = backend.ready(service);
    if (!may_see(service) || (ready && !is_ready)) continue;
    all.push_back({.of = name_and_version(backend, service)});
    if (!is_ready) all.back().unready = backend.loaded(service) ? "no worker is ready" : "unloaded";
  }
  return all;
}

std::vector<ModelStatistics> model_statistics(const Backend& backend, const MaySee& may_see,
                                              std::string_view only) {
  std::vector<ModelStatistics> all;
  for (const std::string& service : backend.services())
    if (may_see(service) && (only.empty() || service == only))
      all.push_back({name_and_version(backend, service), backend.statistics(service)});
  return all;
}

ServedConfig served_config(const Backend& backend, const std::string& name,
                           const std::string& service, const ModelSpec& model) {
  ServedConfig config{.name = name, .model = model};
  for (const std::string& version : versions_of(backend, name))
    if (const auto number = parse_number<std::int64_t>(version)) config.versions.push_back(*number);
  const auto first = [](const TensorSpec& tensor) { return tensor.batch_axis == 0; };
  config.rows = has_rows(model) && std::ranges::all_of(model.inputs, first) &&
                std::ranges::all_of(model.outputs, first);
  ServiceStatistics is = backend.statistics(service);
  config.cache = is.kept && is.kept->terms.memory.value > 0 && is.kept->unfit.empty();
  if (is.pipeline) {
    config.scheduling = Scheduling::pipeline;
    config.pipeline = *std::move(is.pipeline);
  } else if (model.sequences) {
    config.scheduling = Scheduling::sequences;
  } else if (has_rows(model)) {
    config.scheduling = Scheduling::batches;
  }
  return config;
}

std::string json_of(const std::vector<ModelState>& states) {
  std::string out;
  for (const ModelState& state : states)
    out += (out.empty() ? "[" : ",") +
           write_form([&](Form& f) { describe_state(f, state); }, kCompact);
  return (out.empty() ? "[" : out) + "]";
}

std::string json_of(const std::vector<ModelStatistics>& statistics) {
  return write_form([&](Form& f) { f.rows("model_stats", statistics, describe_statistics, {}); },
                    kCompact);
}

std::string json_of(const ServedConfig& config) {
  return write_form([&](Form& f) { describe_config(f, config); }, kCompact);
}

std::string message_of(const std::vector<ModelState>& states) {
  std::string out;
  for (const ModelState& state : states) {
    std::string one;
    append_field(one, 1, state.of.name);
    append_field(one, 2, state.of.version);
    append_field(one, 3, state.unready.empty() ? "READY" : "UNAVAILABLE");
    if (!state.unready.empty()) append_field(one, 4, state.unready);
    append_field(out, 1, one);
  }
  return out;
}

std::string message_of(const std::vector<ModelStatistics>& statistics) {
  std::string out;
  for (const ModelStatistics& each : statistics) {
    std::string one, durations;
    append_field(one, 1, each.of.name);
    append_field(one, 2, each.of.version);
    append_field(one, 3, each.is.last_inference_ms);
    append_field(one, 4, each.is.inference_count);
    append_field(one, 5, each.is.execution_count);
    std::uint32_t field = 1;
    for (const Duration& duration : durations_of(each.is))
      append_field(durations, field++, encode_duration(duration));
    append_field(one, 6, durations);
    append_field(out, 1, one);
  }
  return out;
}

std::string message_of(const ServedConfig& config) {
  std::string is, specific, versions, policy, out;
  append_field(is, 1, config.name);
  append_field(is, 2, platform_of(config));
  for (const std::int64_t version : config.versions)
    append_varint(versions, static_cast<std::uint64_t>(version));
  append_field(specific, 1, versions);
  append_field(policy, 3, specific);
  append_field(is, 3, policy);
  append_field(is, 4, static_cast<std::uint64_t>(max_batch_of(config)));
  for (const TensorSpec& tensor : config.model.inputs)
    append_field(is, 5, encode_tensor(config, tensor, true));
  for (const TensorSpec& tensor : config.model.outputs)
    append_field(is, 6, encode_tensor(config, tensor, false));
  append_scheduling(is, config);
  if (config.scheduling != Scheduling::pipeline) append_field(is, 17, config.model.platform);
  append_field(is, 19, encode_flag(false));
  append_field(is, 24, encode_flag(config.cache));
  append_field(out, 1, is);
  return out;
}

std::string set_loaded(Backend& backend, const std::string& model, bool load,
                       const std::string& brought) {
  if (!brought.empty())
    return "parameter '" + brought +
           "': a model's configuration and files are its worker's, and do not come with load";
  bool any = false;
  for (const std::string& service : backend.services()) {
    const bool named = service == model || name_and_version(backend, service).name == model;
    any = (named && backend.set_loaded(service, load)) || any;
  }
  return any ? "" : "there is no model '" + model + "'";
}

}  // namespace partita::serve
