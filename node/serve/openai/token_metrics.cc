#include "serve/openai/token_metrics.h"

#include <algorithm>
#include <numeric>

#include "base/append.h"

namespace partita::serve {
namespace {

class Page {
 public:
  explicit Page(const std::vector<TokenSnapshot>& services) : services_(services) {}

  void family(const char* name, const char* type, const char* help) {
    append(out_, "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  template <class Value>
  void each(const char* name, const char* type, const char* help, Value value) {
    family(name, type, help);
    for (const TokenSnapshot& one : services_) line(name, one, "", value(one));
  }
  // Of each engine, where there is something to say.
  template <class Value>
  void each_engine(const char* name, const char* help, Value value) {
    family(name, "gauge", help);
    for (const TokenSnapshot& one : services_)
      for (const EngineSnapshot& engine : one.engines)
        if (const auto said = value(engine))
          line(name, one, fmt::format(",engine=\"{}\"", engine.name), *said);
  }
  template <class Number>
  void line(const std::string& name, const TokenSnapshot& one, const std::string& labels,
            Number value) {
    append(out_, "{}{{model_name=\"{}\"{}}} {}\n", name, metric_label(one.terms->name), labels,
           value);
  }
  void histogram(const std::string& name, const char* help,
                 SecondsHistogram TokenCounters::*member) {
    family(name.c_str(), "histogram", help);
    for (const TokenSnapshot& one : services_) {
      const SecondsHistogram& counted = one.counters->*member;
      long sum = 0;
      for (std::size_t i = 0; i < counted.bounds().size(); ++i) {
        sum += counted.counts()[i];
        line(name + "_bucket", one, fmt::format(",le=\"{}\"", counted.bounds()[i]), sum);
      }
      line(name + "_bucket", one, ",le=\"+Inf\"", counted.count());
      line(name + "_sum", one, "", counted.sum());
      line(name + "_count", one, "", counted.count());
    }
  }
  const std::vector<TokenSnapshot>& services() const { return services_; }
  std::string take() { return std::move(out_); }

 private:
  const std::vector<TokenSnapshot>& services_;
  std::string out_;
};

struct NamedFate {
  const char* name;
  long TokenFates::*count;
};
constexpr NamedFate kFates[] = {
    {"answered", &TokenFates::answered},     {"cut", &TokenFates::cut},
    {"failed", &TokenFates::failed},         {"late", &TokenFates::late},
    {"limited", &TokenFates::limited},       {"full", &TokenFates::full},
    {"over_share", &TokenFates::over_share}, {"unready", &TokenFates::unready},
    {"rejected", &TokenFates::rejected},     {"expired", &TokenFates::expired},
    {"withdrawn", &TokenFates::withdrawn},
};

void add_requests(Page& page) {
  page.family(
      "partita_llm_requests_total", "counter",
      "Requests by what became of them; late, limited, full, over_share, unready: refused.");
  for (const TokenSnapshot& one : page.services())
    for (const NamedFate& fate : kFates)
      page.line("partita_llm_requests_total", one, fmt::format(",fate=\"{}\"", fate.name),
                one.counters->fates.*fate.count);
  page.each("partita_llm_requests_in_slo_total", "counter",
            "Answers that kept all that is promised.",
            [](const TokenSnapshot& one) { return one.counters->fates.in_slo; });
  page.each("partita_llm_retries_total", "counter",
            "Requests sent again to another engine, before any token had come.",
            [](const TokenSnapshot& one) { return one.counters->retries; });
  page.family("partita_llm_key_tokens_total", "counter", "Tokens used, by key.");
  for (const TokenSnapshot& one : page.services())
    for (const auto& [key, used] : one.counters->by_key) {
      const std::string label = fmt::format(",key=\"{}\",kind=", metric_label(key));
      page.line("partita_llm_key_tokens_total", one, label + "\"prompt\"", used.prompt);
      page.line("partita_llm_key_tokens_total", one, label + "\"generation\"", used.completion);
    }
}

void add_engines(Page& page) {
  page.each_engine("vllm:kv_cache_usage_perc", "Share of an engine's KV cache in use, as it says.",
                   [](const EngineSnapshot& engine) { return engine.kv_cache_usage; });
  page.each_engine(
      "partita_llm_engine_ready", "Whether an engine gets requests.",
      [](const EngineSnapshot& engine) { return std::optional(engine.state == "ready" ? 1 : 0); });
  page.each_engine("partita_llm_engine_requests", "Requests that an engine has.",
                   [](const EngineSnapshot& engine) { return std::optional(engine.open); });
  page.each_engine("partita_llm_engine_tokens", "Tokens of those that it decodes.",
                   [](const EngineSnapshot& engine) { return std::optional(engine.tokens_held); });
}

}  // namespace

void SecondsHistogram::add(std::int64_t ns, long times) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  const auto at = std::ranges::lower_bound(bounds_, seconds) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)] += times;
  sum_ += seconds * static_cast<double>(times);
}

long SecondsHistogram::count() const { return std::accumulate(counts_.begin(), counts_.end(), 0L); }

std::string token_metrics_text(const std::vector<TokenSnapshot>& services) {
  if (services.empty()) return "";
  Page page(services);
  page.each("vllm:num_requests_running", "gauge", "Requests that engines have.",
            [](const TokenSnapshot& one) { return one.running; });
  page.each("vllm:num_requests_waiting", "gauge", "Requests that wait for an engine.",
            [](const TokenSnapshot& one) { return one.waiting; });
  page.each("vllm:prompt_tokens_total", "counter", "Tokens of prompts, as engines count them.",
            [](const TokenSnapshot& one) { return one.counters->used.prompt; });
  page.each("vllm:prompt_tokens_cached_total", "counter", "Of those, found in a prefix cache.",
            [](const TokenSnapshot& one) { return one.counters->used.cached; });
  page.each("vllm:generation_tokens_total", "counter", "Tokens of answers.",
            [](const TokenSnapshot& one) { return one.counters->used.completion; });
  page.histogram("vllm:time_to_first_token_seconds", "From a request to its first token.",
                 &TokenCounters::ttft);
  page.histogram("vllm:request_time_per_output_token_seconds",
                 "Time per token after the first, on average over an answer.",
                 &TokenCounters::tpot);
  page.histogram("vllm:inter_token_latency_seconds", "From one token to the next.",
                 &TokenCounters::itl);
  page.histogram("vllm:e2e_request_latency_seconds", "From a request to the end of its answer.",
                 &TokenCounters::e2e);
  add_requests(page);
  add_engines(page);
  return page.take();
}

}  // namespace partita::serve
