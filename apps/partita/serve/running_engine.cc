#include "serve/running_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/document.h"
#include "base/http/http_stream.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "places.h"
#include "serve/load/token_load.h"

namespace partita::cli {
namespace {

constexpr sim::Nanos kPatienceOfLoop = 600'000'000'000, kMetadataPatience = 10'000'000'000;
constexpr int kFewWords = 64, kManyWords = 192;  // of the prompts that tell tokens per word
constexpr int kFewTokens = 16;                   // of their answers
constexpr sim::Nanos kPatienceOfOne = 30'000'000'000;
constexpr int kFine = 200;
constexpr std::size_t kShownOfBody = 120;  // of an answer that is no error in OpenAI's form
constexpr double kLeastOfAsked = 0.9;      // of the tokens
constexpr int kMostOpenConnections = 1024;
// Requests that tell percentiles.
constexpr long kEnough[] = {1, 10, 100};

llm::Percentiles percentiles_of(const sim::LatencyHistogram& seen, long requests) {
  llm::Percentiles found;
  for (std::size_t i = 0; i < std::size(llm::kPercentiles); ++i)
    if (const auto nanos = seen.count() > 0 ? seen.percentile(llm::kPercents[i]) : 0;
        requests >= kEnough[i] && nanos > 0)  // 0: the client read all tokens at once
      found.*llm::kPercentiles[i] = Millis{static_cast<double>(nanos) / 1e6};
  return found;
}

LoopSeen seen_of(const serve::LoadTally& tally, double seconds) {
  const serve::TokenTally& tokens = tally.tokens;
  const auto ms = [](double nanos) { return Millis{nanos / 1e6}; };
  const auto both = [&](double percent) {
    return llm::LoopTimes{ms(static_cast<double>(tokens.ttft.percentile(percent))),
                          ms(static_cast<double>(tokens.tpot.percentile(percent)))};
  };
  LoopSeen seen{.mean = {ms(tokens.ttft.mean()), ms(tokens.tpot.mean())},
                .median = both(50),
                .p99 = both(99),
                .itl = ms(tokens.itl.mean()),
                .tokens_per_s = static_cast<double>(tokens.out) / std::max(seconds, 1e-9)};
  seen.ttft_at = percentiles_of(tokens.ttft, tokens.ttft.count());
  seen.tpot_at = percentiles_of(tokens.tpot, tokens.tpot.count());
  seen.itl_at = percentiles_of(tokens.itl, tokens.ttft.count());
  seen.in_flight = tally.latencies().mean() * static_cast<double>(tally.completed()) /
                   std::max(seconds * 1e9, 1.0);
  return seen;
}

// The message of an error in OpenAI's form, else how the text begins.
std::string said_in(const std::string& body) {
  const auto document = parse_document("", body);
  const Node* const error = document ? document->root.find("error") : nullptr;
  const Node* const message = error != nullptr ? error->find("message") : nullptr;
  return utf8(printable(message != nullptr ? message->text : body.substr(0, kShownOfBody)));
}

}  // namespace

LoopSeen seen_of(const std::vector<llm::LoopTimes>& times) {
  serve::LoadTally tally(0);
  const auto nanos = [](Millis ms) { return std::llround(ms.value * 1e6); };
  for (const llm::LoopTimes& one : times) {
    tally.tokens.ttft.add(nanos(one.ttft));
    tally.tokens.tpot.add(nanos(one.tpot));
  }
  return seen_of(tally, 1);
}

RunningEngine::RunningEngine(Context& context, serve::LoadOptions options)
    : context_(context), options_(std::move(options)) {
  options_.duration = sim::kForever;
  options_.patience = kPatienceOfLoop;
  options_.stop = [this] { return stopped(); };
}

Result<void> RunningEngine::meet(const std::string& said) {
  name_ = said;
  if (name_.empty()) TRY(ask_name());
  double tokens[2] = {};
  for (const int words : {kFewWords, kManyWords}) {
    const auto played = TRY(run_loop({{words, kFewTokens}}, 1));
    tokens[words == kManyWords] = static_cast<double>(played.tally.tokens.in);
    step_ = Millis{played.tally.tokens.tpot.mean() / 1e6};
  }
  per_word_ = (tokens[1] - tokens[0]) / (kManyWords - kFewWords);
  extra_ = tokens[0] - per_word_ * kFewWords;
  if (tokens[0] > 0 && per_word_ >= 0.1) return {};
  return environment_error(where(), "its streams end without usage");
}

Result<LoopSeen> RunningEngine::play(const LoopPoint& point) {
  const bool open = point.rate_rps > 0;
  const std::vector<llm::Request> requests =
      open ? llm::open_requests(point.shape, Rps{point.rate_rps})
           : llm::loop_requests(point.shape, point.in_flight);
  serve::LoadService service;
  std::vector<double> times_s;
  double asked = 0;
  for (const llm::Request& request : requests) {
    service.lengths.push_back({words_for(request.in), request.out});
    times_s.push_back(request.arrival.value / 1e3);
    asked += request.out;
  }
  if (open)
    service.arrivals = sim::ArrivalSource::recorded(times_s);
  else
    service.in_flight = point.in_flight;
  const auto played = TRY(run(std::move(service), open ? kMostOpenConnections : point.in_flight));
  TRY(check_lengths(played.tally, asked));
  return seen_of(played.tally, played.seconds);
}

Result<std::vector<serve::TokenTimes>> RunningEngine::play_together(int requests, int tokens) {
  serve::LoadService service{
      .name = {},
      .slo = 0,
      .arrivals = {},
      .in_flight = requests,
      .lengths = std::vector<plan::Length>(static_cast<std::size_t>(requests),
                                           plan::Length{words_for(tokens), tokens}),
      .keeps_times = true};
  const double asked = 1.0 * requests * tokens;
  auto played = TRY(run(std::move(service), requests));
  TRY(check_lengths(played.tally, asked));
  return std::move(played.tally.tokens.times);
}

serve::EngineMetrics RunningEngine::metrics() {
  const auto dialer = serve::HttpDialer::to(options_.url, options_.tls);
  if (!dialer) return {};
  const auto answer = serve::fetch(
      *dialer,
      fmt::format("GET {}/metrics HTTP/1.1\r\nHost: {}\r\n\r\n", options_.url.path, where()),
      context_.clock, kMetadataPatience);
  return answer && answer->status == kFine ? serve::read_engine_metrics(answer->body)
                                           : serve::EngineMetrics{};
}

int RunningEngine::words_for(int tokens) const {
  return std::max(1, static_cast<int>(std::lround((tokens - extra_) / per_word_)));
}

Result<void> RunningEngine::ask_name() {
  const auto dialer = TRY(serve::HttpDialer::to(options_.url, options_.tls));
  const std::string what = where() + options_.url.path + "/v1/models";
  const auto answer = serve::fetch(
      dialer,
      fmt::format("GET {}/v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", options_.url.path, where()),
      context_.clock, kMetadataPatience);
  if (!answer) return environment_error(what, answer.error().message);
  const auto document = parse_document(what, answer->body);
  const Node* const list = document ? document->root.find("data") : nullptr;
  const Node* const id =
      list != nullptr && !list->items.empty() ? list->items.front().find("id") : nullptr;
  if (id == nullptr)
    return environment_error(what, fmt::format("names no model: status {}", answer->status));
  name_ = id->text;
  return {};
}

// Why requests are not answered whole, by what comes of one that is sent once more by itself.
std::string RunningEngine::fault_of(const plan::Length& length) {
  const auto dialer = serve::HttpDialer::to(options_.url, options_.tls);
  if (!dialer) return to_string(dialer.error());
  const auto answer =
      serve::fetch(*dialer, serve::completion_request({options_.url, name_}, {}, length, Rng(1)),
                   context_.clock, kPatienceOfOne);
  if (!answer) return answer.error().message;
  if (answer->status != kFine)
    return fmt::format("it answers with status {}: {}", answer->status, said_in(answer->body));
  serve::TokenAnswer stream;
  stream.take(answer->body, 1);
  if (stream.whole()) return "one more by itself was: it may be overloaded";
  if (stream.first() == 0) return "it answers without tokens: " + said_in(answer->body);
  return "its stream has no end: no \"data: [DONE]\", or an error event";
}

// An engine that ends its answers early was measured at other shapes than it is asked about.
Result<void> RunningEngine::check_lengths(const serve::LoadTally& tally, double asked) const {
  const auto out = static_cast<double>(tally.tokens.out);
  const auto answers = static_cast<double>(std::max(1L, tally.completed()));
  if (stopped_ || out >= kLeastOfAsked * asked) return {};
  return environment_error(
      where(),
      fmt::format("its answers have {:.4g} tokens on average where {:.4g} were asked for, so that "
                  "nothing is measured of such: it ends them by itself, although `ignore_eos` is "
                  "asked for",
                  out / answers, asked / answers));
}

Result<RunningEngine::Played> RunningEngine::run_loop(std::vector<plan::Length> lengths,
                                                      int in_flight) {
  return run(
      {.name = {}, .slo = 0, .arrivals = {}, .in_flight = in_flight, .lengths = std::move(lengths)},
      in_flight);
}

Result<RunningEngine::Played> RunningEngine::run(serve::LoadService service, int connections) {
  service.name = name_;
  service.tokens = plan::TokenTerms{};
  const std::size_t count = service.lengths.size();
  const plan::Length first = service.lengths.front();
  options_.connections = connections;
  ++options_.seed;  // other words: nothing of a prompt is cached
  const auto outcome = TRY(serve::run_load(options_, {std::move(service)}, context_.clock));
  const serve::LoadTally& tally = outcome.services.front();
  if (!outcome.stopped && tally.completed() < static_cast<long>(count))
    return environment_error(where(),
                             fmt::format("{} of {} requests were not answered whole; {}",
                                         count - tally.completed(), count, fault_of(first)));
  return Played{tally, outcome.answered_s};
}

}  // namespace partita::cli
