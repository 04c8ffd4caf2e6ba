#include "serve/openai/engine_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parse_number.h"

namespace partita::serve {
namespace {

enum class What : unsigned char { usage, room, waiting, preemptions };
// vLLM's newer and older names, SGLang's, llama.cpp's.
constexpr std::pair<std::string_view, What> kNames[] = {
    {"vllm:kv_cache_usage_perc", What::usage},
    {"vllm:gpu_cache_usage_perc", What::usage},
    {"sglang:token_usage", What::usage},
    {"llamacpp:kv_cache_usage_ratio", What::usage},
    {"sglang:max_total_num_tokens", What::room},
    {"vllm:num_requests_waiting", What::waiting},
    {"sglang:num_queue_reqs", What::waiting},
    {"llamacpp:requests_deferred", What::waiting},
    {"vllm:num_preemptions_total", What::preemptions},
    {"sglang:num_retracted_reqs", What::preemptions}};
// Its value is 1; what it says is in its labels.
constexpr std::string_view kCacheConfig = "vllm:cache_config_info";
constexpr double kMost = 1e12;

std::optional<double> number_of(std::string_view text) {
  const auto value = take_number<double>(text);
  const bool fine =
      value && text.empty() && std::isfinite(*value) && *value >= 0 && *value <= kMost;
  return fine ? std::optional(*value) : std::nullopt;
}

// Of labels such as block_size="16",num_gpu_blocks="5000".
std::optional<double> label(std::string_view labels, std::string_view name) {
  for (std::size_t at = labels.find(name); at != labels.npos; at = labels.find(name, at + 1)) {
    const bool begins = at == 0 || labels[at - 1] == ',' || labels[at - 1] == '{';
    std::string_view rest = labels.substr(at + name.size());
    if (!begins || !rest.starts_with("=\"")) continue;
    rest.remove_prefix(2);
    return number_of(rest.substr(0, rest.find('"')));
  }
  return std::nullopt;
}

void take(What what, double value, EngineMetrics& metrics) {
  switch (what) {
    case What::usage:
      if (value <= 1) metrics.kv_cache_usage = std::max(value, metrics.kv_cache_usage.value_or(0));
      return;
    case What::room:
      if (value >= 1) metrics.kv_tokens = std::min(value, metrics.kv_tokens.value_or(value));
      return;
    case What::waiting:
      metrics.waiting = value + metrics.waiting.value_or(0);
      return;
    case What::preemptions:
      metrics.preemptions = value + metrics.preemptions.value_or(0);
      return;
  }
}

void read_line(std::string_view line, EngineMetrics& metrics) {
  const std::string_view name = line.substr(0, line.find_first_of("{ "));
  line.remove_prefix(name.size());
  std::string_view labels;
  if (line.starts_with('{')) {
    const std::size_t end = line.rfind('}');
    if (end == line.npos) return;
    labels = line.substr(1, end - 1);
    line.remove_prefix(end + 1);
  }
  if (name == kCacheConfig) {
    const auto blocks = label(labels, "num_gpu_blocks"), size = label(labels, "block_size");
    if (blocks && size) take(What::room, *blocks * *size, metrics);
    return;
  }
  const auto* const known =
      std::ranges::find_if(kNames, [&](const auto& one) { return one.first == name; });
  if (known == std::end(kNames)) return;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  // A time may stand behind it.
  if (const auto value = number_of(line.substr(0, line.find_first_of(" \r"))))
    take(known->second, *value, metrics);
}

}  // namespace

EngineMetrics read_engine_metrics(std::string_view text) {
  EngineMetrics metrics;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with('#')) read_line(line, metrics);
  }
  return metrics;
}

}  // namespace partita::serve
