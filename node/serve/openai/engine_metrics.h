// What an engine says of itself in its metrics (Prometheus text), under the names of vLLM, SGLang
// and llama.cpp. Pure; total: what is not understood is not there.
#pragma once

#include <optional>
#include <string_view>

namespace partita::serve {

// Of an engine of several ranks: the fullest cache, the least room, all that wait.
struct EngineMetrics {
  std::optional<double> kv_cache_usage = {};  // 0 to 1
  std::optional<double> kv_tokens = {};       // that fit
  std::optional<double> waiting = {};         // requests
  std::optional<double> preemptions = {};     // since it started
  bool operator==(const EngineMetrics&) const = default;
};
EngineMetrics read_engine_metrics(std::string_view text);

}  // namespace partita::serve
