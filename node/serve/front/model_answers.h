// What the gateway says of its models besides their tensors: which there are, how they do, how they
// are configured; each as the JSON of Triton's HTTP extensions and as the message of its gRPC ones.
// Loop thread only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/front/backend.h"

namespace partita::serve {

using MaySee = std::function<bool(const std::string& service)>;

struct ModelState {
  NameAndVersion of;
  std::string unready = {};  // why; empty: it is ready
};
// `ready`: those alone that are.
std::vector<ModelState> model_states(const Backend& backend, const MaySee& may_see, bool ready);

struct ModelStatistics {
  NameAndVersion of;
  ServiceStatistics is;
};
// `only` that service; empty: all.
std::vector<ModelStatistics> model_statistics(const Backend& backend, const MaySee& may_see,
                                              std::string_view only);

// As Triton's ModelConfig: of what a plan decides here, and of what a worker keeps to itself (the
// names of its states), nothing is said.
struct ServedConfig {
  enum class Scheduling : std::uint8_t { none, batches, sequences, pipeline };
  std::string name;
  ModelSpec model;                           // of its service
  std::vector<std::int64_t> versions = {};   // those that are numbers
  bool rows = false;                         // all tensors have them on their first axis
  bool cache = false;                        // answers are kept
  Scheduling scheduling = Scheduling::none;  // none: a request at a time
  plan::PipelineTerms pipeline = {};
};
// `model`: what workers told of the service, which was asked for by this name.
ServedConfig served_config(const Backend& backend, const std::string& name,
                           const std::string& service, const ModelSpec& model);

std::string json_of(const std::vector<ModelState>& states);
std::string json_of(const std::vector<ModelStatistics>& statistics);
std::string json_of(const ServedConfig& config);
// RepositoryIndexResponse, ModelStatisticsResponse, ModelConfigResponse.
std::string message_of(const std::vector<ModelState>& states);
std::string message_of(const std::vector<ModelStatistics>& statistics);
std::string message_of(const ServedConfig& config);

// All versions of it. Else why not: `brought` is a parameter that brings_model().
std::string set_loaded(Backend& backend, const std::string& model, bool load,
                       const std::string& brought);

inline constexpr std::string_view kNoTraceSettings =
    "trace settings are not offered: traces are the gateway's --otlp and the client's traceparent";
inline constexpr std::string_view kNoLogSettings =
    "log settings are not offered: the access log is the gateway's --access-log";

}  // namespace partita::serve
