// OpenAI's form from both sides: a stream of events is the same whatever pieces it comes in and
// loses no byte; what an engine gets of a request is what its client sent, but for the model's name
// and being told to say usage.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "serve/openai/engine_metrics.h"
#include "serve/openai/event_stream.h"
#include "serve/openai/openai_request.h"
#include "serve/openai/prefix_index.h"
#include "target.h"

namespace {

namespace serve = partita::serve;
using nlohmann::json;

struct Events {
  std::string bytes, kinds;
  bool operator==(const Events&) const = default;
};
Events events_of(std::string_view text, std::size_t piece) {
  Events all;
  serve::EventStream stream;
  for (std::size_t at = 0; at < text.size(); at += piece)
    stream.take(text.substr(at, piece), [&](const serve::StreamEvent& event) {
      all.bytes += event.bytes;
      all.kinds += static_cast<char>('0' + static_cast<int>(event.kind));
      if (event.usage) all.kinds += 'u';
      const serve::StreamEvent alone = serve::read_event(event.bytes);
      CHECK(alone.kind == event.kind && alone.usage == event.usage);
    });
  CHECK(text.starts_with(all.bytes));
  CHECK(stream.inside() == (all.bytes.size() < text.size()));
  return all;
}

// Whether an object at the top says a key twice, which nlohmann does not tell.
bool says_twice(std::string_view text) {
  std::set<std::string> keys;
  bool twice = false;
  const auto look = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1)
      twice = !keys.insert(parsed.get<std::string>()).second || twice;
    return true;
  };
  [[maybe_unused]] const json read = json::parse(text, look, false);
  return twice;
}

void check_request(std::string_view text) {
  const auto request = serve::parse_openai_request(text);
  if (!request) return;
  serve::prefix_hashes(request->prompt);
  CHECK(request->text_bytes <= request->prompt.size() + request->tools.size());
  CHECK(request->answers >= 1 && request->answers <= serve::kMostAnswers);
  const json sent = json::parse(text, nullptr, false);
  if (sent.is_discarded() || says_twice(text)) return;  // a stricter reader
  json wanted = sent;
  CHECK(sent["model"].get<std::string>() == request->model);
  wanted["model"] = "other \"one\"";
  if (serve::adds_usage(*request)) {
    json& options = wanted["stream_options"];
    if (options.is_null()) options = json::object();
    options["include_usage"] = true;
    options.erase("continuous_usage_stats");
  }
  const json got = json::parse(serve::engine_body(*request, "other \"one\""), nullptr, false);
  CHECK(!got.is_discarded());
  CHECK(got == wanted);
}

// Whatever an engine writes, a share is one; lines that are no metrics change nothing.
void check_metrics(std::string_view text) {
  const serve::EngineMetrics read = serve::read_engine_metrics(text);
  if (read.kv_cache_usage) CHECK(*read.kv_cache_usage >= 0 && *read.kv_cache_usage <= 1);
  if (read.kv_tokens) CHECK(*read.kv_tokens >= 1);
  CHECK(read.waiting.value_or(0) >= 0 && read.preemptions.value_or(0) >= 0);
  CHECK(serve::read_engine_metrics("# a\n" + std::string(text) + "\nb 1\n") == read);
}

}  // namespace

FUZZ_TARGET(openai) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Events whole = events_of(text, text.size() + 1);
  CHECK(events_of(text, 1) == whole);
  CHECK(events_of(text, 7) == whole);
  serve::read_answer(text);
  check_metrics(text);
  check_request(text);
  return 0;
}
