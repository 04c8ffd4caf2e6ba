#include <cmath>

#include "base/http/http_stream.h"
#include "base/unicode.h"
#include "command.h"
#include "llm/engine/engines.h"
#include "llm/runs.h"
#include "serve/load/kv_probe.h"
#include "serve/load/load_run.h"
#include "serve/load/token_load.h"
#include "serve/measure/points.h"
#include "serve/openai/engine_metrics.h"
#include "serve/profile_measure.h"

namespace partita::cli {
namespace {

// An engine that runs, asked from outside: what it is called, how its tokens and our words go
// together, and what comes of loops of requests at it.
struct LoopPoint {
  llm::Shape shape;
  int in_flight = 1;    // of a closed loop
  double rate_rps = 0;  // of an open one; 0: it is closed
};

// What a loop came to, in milliseconds. Of a few requests nobody can say p90 or p99.
struct LoopSeen {
  llm::LoopTimes mean, median, p99;
  llm::Percentiles ttft_at = {}, tpot_at = {}, itl_at = {};
  Millis itl = {};
  double tokens_per_s = 0, in_flight = 0;  // on average
};

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

// The same of a simulated loop, but for gaps and rates.
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

LoopSeen seen_of(const std::vector<llm::LoopTimes>& times) {
  serve::LoadTally tally(0);
  const auto nanos = [](Millis ms) { return std::llround(ms.value * 1e6); };
  for (const llm::LoopTimes& one : times) {
    tally.tokens.ttft.add(nanos(one.ttft));
    tally.tokens.tpot.add(nanos(one.tpot));
  }
  return seen_of(tally, 1);
}

class RunningEngine {
 public:
  RunningEngine(Context& context, serve::LoadOptions options)
      : context_(context), options_(std::move(options)) {
    options_.duration = sim::kForever;
    options_.patience = kPatienceOfLoop;
    options_.stop = [this] { return stopped(); };
  }

  // Once asked to, for good: what was under way then is no measurement.
  bool stopped() { return stopped_ = stopped_ || stop_.within(0); }
  const std::string& name() const { return name_; }
  std::string where() const { return authority_of(options_.url); }

  // Asks for its name, unless it is said, and how its tokens and our words go together.
  Result<void> meet(const std::string& said) {
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
  Result<LoopSeen> play(const LoopPoint& point) {
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
  // So many requests at once; when their tokens came. Prompts are all different.
  Result<std::vector<serve::TokenTimes>> play_together(int requests, int tokens) {
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
  // What it says at /metrics; nothing of what it does not.
  serve::EngineMetrics metrics() {
    const auto dialer = serve::HttpDialer::to(options_.url, options_.tls);
    if (!dialer) return {};
    const auto answer = serve::fetch(*dialer, dialer->request("GET", "/metrics"), context_.clock,
                                     kMetadataPatience);
    return answer && answer->status == kFine ? serve::read_engine_metrics(answer->body)
                                             : serve::EngineMetrics{};
  }
  Millis step() const { return step_; }  // about, with one sequence

 private:
  struct Played {
    serve::LoadTally tally;
    double seconds = 0;
  };
  int words_for(int tokens) const {
    return std::max(1, static_cast<int>(std::lround((tokens - extra_) / per_word_)));
  }
  Result<void> ask_name() {
    const auto dialer = TRY(serve::HttpDialer::to(options_.url, options_.tls));
    const std::string what = where() + options_.url.path + "/v1/models";
    const auto answer = serve::fetch(dialer, dialer.request("GET", "/v1/models"), context_.clock,
                                     kMetadataPatience);
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
  std::string fault_of(const plan::Length& length) {
    const auto dialer = serve::HttpDialer::to(options_.url, options_.tls);
    if (!dialer) return to_string(dialer.error());
    const auto answer = serve::fetch(
        *dialer, serve::completion_request({options_.url, name_}, {}, length, Rng(1), Rng(1)),
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
  Result<void> check_lengths(const serve::LoadTally& tally, double asked) const {
    const auto out = static_cast<double>(tally.tokens.out);
    const auto answers = static_cast<double>(std::max(1L, tally.completed()));
    if (stopped_ || out >= kLeastOfAsked * asked) return {};
    return environment_error(
        where(),
        fmt::format(
            "its answers have {:.4g} tokens on average where {:.4g} were asked for, so that "
            "nothing is measured of such: it ends them by itself, although `ignore_eos` is "
            "asked for",
            out / answers, asked / answers));
  }
  // Every request is answered, or it is refused.
  Result<Played> run(serve::LoadService service, int connections) {
    service.name = name_;
    service.tokens = plan::TokenTerms{};
    const std::size_t count = service.lengths.size();
    const plan::Length first = service.lengths.front();
    options_.connections = connections;
    const auto outcome = TRY(serve::run_load(options_, {std::move(service)}, context_.clock));
    const serve::LoadTally& tally = outcome.services.front();
    if (!outcome.stopped && tally.completed() < static_cast<long>(count))
      return environment_error(where(),
                               fmt::format("{} of {} requests were not answered whole; {}",
                                           count - tally.completed(), count, fault_of(first)));
    return Played{tally, outcome.answered_s};
  }
  Result<Played> run_loop(std::vector<plan::Length> lengths, int in_flight) {
    return run({.name = {},
                .slo = 0,
                .arrivals = {},
                .in_flight = in_flight,
                .lengths = std::move(lengths)},
               in_flight);
  }

  Context& context_;
  serve::LoadOptions options_;
  StopRequest stop_;
  bool stopped_ = false;
  std::string name_;
  double per_word_ = 1, extra_ = 0;  // tokens
  Millis step_ = {};
};

// Errors of predictions that count as sure, and how many in a row.
constexpr double kSureTpot = 0.05, kSureTtft = 0.15;
constexpr int kSureInARow = 3;
// Rates that are chosen, of what the fullest closed loop carried.
constexpr double kChosenRates[] = {0.3, 0.6, 0.8};
constexpr const char* kChosen = "auto";
// The first requests of a KV probe take so long, so that a slow client sees who waits.
constexpr double kProbeMs = 300;
constexpr double kMarginNs = 2e7;

Result<std::vector<llm::Shape>> parse_shapes(const std::string& text) {
  std::vector<llm::Shape> shapes;
  for (const std::string& word : split(text, ',')) {
    const auto sizes = split(word, '/');
    std::vector<int> both;
    for (const std::string& size : sizes)
      if (const auto count = serve::parse_counts("--token-shapes", size, 1'000'000);
          count && count->size() == 1)
        both.push_back(count->front());
    if (sizes.size() != 2 || both.size() != 2 || both[1] < 2)
      return bad_input("--token-shapes",
                       fmt::format("'{}' is not TOKENS_IN/TOKENS_OUT, of at least 2 out", word));
    shapes.push_back({both[0], both[1]});
  }
  return shapes;
}

// Empty: "auto", or none are asked for.
Result<std::vector<double>> parse_rates(const std::string& text) {
  std::vector<double> rates;
  for (const std::string& word :
       text.empty() || text == kChosen ? std::vector<std::string>() : split(text, ',')) {
    std::string_view rest = word;
    const auto rate = take_number<double>(rest);
    if (!rate || !rest.empty() || !(*rate >= 1e-3 && *rate <= 1e5))
      return bad_input("--rates", fmt::format("'{}' is no rate from 0.001 to 100,000 requests a "
                                              "second, nor {}",
                                              word, kChosen));
    rates.push_back(*rate);
  }
  return rates;
}

// The edges first, since what is between them may not have to be measured.
std::vector<LoopPoint> in_order(const std::vector<llm::Shape>& shapes,
                                const std::vector<int>& counts) {
  std::vector<LoopPoint> edges, inner;
  for (const int count : counts)
    for (const llm::Shape& shape : shapes)
      (count == counts.front() || count == counts.back() ? edges : inner)
          .push_back({shape, count, 0});
  edges.insert(edges.end(), inner.begin(), inner.end());
  return edges;
}

double off(Millis predicted, Millis measured) { return predicted.value / measured.value - 1; }

// What is in the file, and what comes to it.
class PointsFile {
 public:
  PointsFile(Context& context, std::string path) : context_(context), path_(std::move(path)) {}

  Result<void> read() {
    if (!context_.files.exists(path_)) return {};
    all_ = TRY(read_as(context_.files, path_, llm::parse_points));
    return {};
  }

  llm::Measured& of(const llm::Configuration& configuration) {
    const auto found = std::ranges::find_if(all_, [&](const llm::Measured& one) {
      auto same = one.configuration;  // a probe may have told what fits
      if (!configuration.kv_tokens) same.kv_tokens.reset();
      return same == configuration;
    });
    return found != all_.end() ? *found : all_.emplace_back(llm::Measured{configuration, {}});
  }

  Result<void> save() { return context_.files.write_atomic(path_, llm::points_csv(all_)); }
  const std::string& path() const { return path_; }
  const std::vector<llm::Measured>& all() const { return all_; }

 private:
  Context& context_;
  std::string path_;
  std::vector<llm::Measured> all_;
};

// What the points so far say of one that is to come; nothing while they are too few.
std::optional<LoopSeen> predicted(const llm::Measured& so_far, const LoopPoint& point) {
  if (llm::closed_loops(so_far.points).size() < llm::kLeastEnginePoints) return std::nullopt;
  const auto engine = llm::engine_of(so_far);
  if (!engine) return std::nullopt;
  const auto times = point.rate_rps > 0 ? llm::open_times(llm::learned_of(*engine, 1), point.shape,
                                                          Rps{point.rate_rps})
                                        : llm::loop_times(llm::learned_of(*engine, point.in_flight),
                                                          point.shape, point.in_flight);
  return times ? std::optional(seen_of(*times)) : std::nullopt;
}

std::string point_text(const LoopPoint& point) {
  return fmt::format("{}/{} tokens, {}", point.shape.tokens_in, point.shape.tokens_out,
                     point.rate_rps > 0 ? fmt::format("{:.4g} requests/s", point.rate_rps)
                                        : fmt::format("{} in flight", point.in_flight));
}

llm::Point point_of(const LoopPoint& asked, const LoopSeen& seen) {
  llm::Point point{asked.shape, static_cast<double>(asked.in_flight), seen.mean.ttft,
                   seen.mean.tpot};
  point.ttft_at = seen.ttft_at;
  point.tpot_at = seen.tpot_at;
  point.itl_at = seen.itl_at;
  if (seen.itl.value > 0) point.itl = seen.itl;
  if (asked.rate_rps <= 0) return point;
  point.rate = Rps{asked.rate_rps};
  point.concurrency = std::max(1.0, seen.in_flight);
  return point;
}

bool is_there(const llm::Measured& measured, const LoopPoint& point) {
  return std::ranges::any_of(measured.points, [&](const llm::Point& p) {
    if (p.shape != point.shape) return false;
    return point.rate_rps > 0 ? p.rate == Rps{point.rate_rps}
                              : !p.rate && p.concurrency == point.in_flight;
  });
}

// Measures points into a file, and says what comes.
class Filling {
 public:
  Filling(Context& context, RunningEngine& engine, PointsFile& file, llm::Measured& measured)
      : context_(context), engine_(engine), file_(file), measured_(measured) {}

  // False: somebody asked to stop. Errors of predictions are those of the last one.
  Result<bool> add(const LoopPoint& point) {
    const auto guess = predicted(measured_, point);
    const auto seen = engine_.play(point);
    if (engine_.stopped()) return false;
    if (!seen) return failed(seen.error());
    measured_.points.push_back(point_of(point, *seen));
    TRY(file_.save());
    ++fresh_;
    std::string beside;
    sure_ = guess && std::abs(off(guess->mean.tpot, seen->mean.tpot)) <= kSureTpot &&
                    std::abs(off(guess->mean.ttft, seen->mean.ttft)) <= kSureTtft
                ? sure_ + 1
                : 0;
    if (guess)
      beside = fmt::format("; predicted {:+.0f} % and {:+.0f} %, p99 {:+.0f} % and {:+.0f} %",
                           100 * off(guess->mean.ttft, seen->mean.ttft),
                           100 * off(guess->mean.tpot, seen->mean.tpot),
                           100 * off(guess->p99.ttft, seen->p99.ttft),
                           100 * off(guess->p99.tpot, seen->p99.tpot));
    note(context_,
         fmt::format("{}: TTFT {:.1f} ms, TPOT {:.2f} ms, {:.0f} tokens/s{}\n", point_text(point),
                     seen->mean.ttft.value, seen->mean.tpot.value, seen->tokens_per_s, beside));
    return true;
  }
  Exit stopped() {
    note(context_, fmt::format("stopped; {} has {} points, and the same command goes on with the "
                               "rest\n",
                               file_.path(), measured_.points.size()));
    return Exit::no;
  }
  bool sure() const { return sure_ >= kSureInARow; }
  int fresh() const { return fresh_; }

 private:
  Context& context_;
  RunningEngine& engine_;
  PointsFile& file_;
  llm::Measured& measured_;
  int sure_ = 0, fresh_ = 0;
};

// Requests a second that the fullest closed loop of a shape carried; 0: it was not measured.
double carried_rps(const llm::Measured& measured, const llm::Shape& shape) {
  double most = 0;
  for (const llm::Point& p : llm::closed_loops(measured.points))
    if (p.shape == shape)
      most = std::max(most,
                      1e3 * p.concurrency / (p.ttft.value + (shape.tokens_out - 1) * p.tpot.value));
  return most;
}

// As they are asked for, or chosen for each shape.
std::vector<LoopPoint> open_points(const std::vector<llm::Shape>& shapes,
                                   const std::vector<double>& rates,
                                   const llm::Measured& measured) {
  std::vector<LoopPoint> points;
  for (const llm::Shape& shape : shapes) {
    const double most = carried_rps(measured, shape);
    if (rates.empty() && most > 0)
      for (const double share : kChosenRates) points.push_back({shape, 1, share * most});
    for (const double rate : rates) points.push_back({shape, 1, rate});
  }
  return points;
}

// Closed loops that are not there, until it is sure; then the open ones.
struct Asked {
  std::vector<llm::Shape> shapes;
  std::vector<LoopPoint> closed;
  bool open = false;
  std::vector<double> rates;  // none: chosen
};
Result<Exit> fill(Context& context, RunningEngine& engine, PointsFile& file,
                  const llm::Configuration& configuration, const Asked& asked) {
  llm::Measured& measured = file.of(configuration);
  Filling filling(context, engine, file, measured);
  for (const LoopPoint& point : asked.closed) {
    if (is_there(measured, point)) continue;
    const auto went_on = TRY(filling.add(point));
    if (!went_on) return filling.stopped();
    if (!filling.sure()) continue;
    note(context, fmt::format("the last {} were as predicted: that is enough\n", kSureInARow));
    break;
  }
  for (const LoopPoint& point :
       asked.open ? open_points(asked.shapes, asked.rates, measured) : std::vector<LoopPoint>()) {
    if (is_there(measured, point)) continue;
    const auto went_on = TRY(filling.add(point));
    if (!went_on) return filling.stopped();
  }
  say(context, fmt::format("{}: {} points of '{}', {} of them new\n", file.path(),
                           measured.points.size(), configuration.model, filling.fresh()));
  return Exit::done;
}

// How many tokens of KV cache fit: what it says, else what is found out; written to its points.
Result<Exit> probe_kv(Context& context, RunningEngine& engine, PointsFile& file,
                      const llm::Configuration& configuration, Seconds time) {
  const serve::EngineMetrics said = engine.metrics();
  serve::KvFound found{.tokens = said.kv_tokens.value_or(0), .full = true};
  if (!said.kv_tokens) {
    const std::int64_t end = context.clock.now_ns() + static_cast<std::int64_t>(time.value * 1e9);
    const double step = std::max(engine.step().value, 1e-3);
    serve::KvProbe probe;
    probe.least_tokens = static_cast<int>(std::clamp(kProbeMs / step, 16.0, 1e4));
    probe.margin = static_cast<std::int64_t>(std::max(kMarginNs, 2e6 * step));
    probe.is_over = [&] { return engine.stopped() || context.clock.now_ns() >= end; };
    const auto searched = serve::find_kv_tokens(probe, [&](int requests, int tokens) {
      note(context, fmt::format("{} requests of {} tokens in and out\n", requests, tokens));
      return engine.play_together(requests, tokens);
    });
    if (engine.stopped()) return Exit::no;
    if (!searched) return failed(searched.error());
    found = *searched;
    if (found.tokens < 1)
      return environment_error(engine.where(), "no requests were seen to be held at one time");
  }
  llm::Measured& measured = file.of(configuration);
  measured.configuration.kv_tokens = static_cast<int>(std::min(found.tokens, 1e8));
  if (!measured.points.empty()) TRY(file.save());
  const std::string how =
      said.kv_tokens ? "as its metrics say"
                     : fmt::format("{} requests of {} tokens in and out were held at one time{}",
                                   found.requests, found.length,
                                   found.full ? ", a little more was not"
                                              : ", perhaps more fit: " + found.ended);
  say(context, fmt::format("kv_tokens: {}, {}{}\n", *measured.configuration.kv_tokens, how,
                           measured.points.empty() ? " (for --told kv_tokens=N)"
                                                   : "; written to " + file.path()));
  return Exit::done;
}

// Plays every point, and shows what the points of `known` say of it.
Result<Exit> compare(Context& context, RunningEngine& engine, const llm::Measured& known,
                     const std::vector<LoopPoint>& points) {
  Table table = headed(
      "TOKENS IN/OUT|IN FLIGHT|TTFT p50 ms|predicted|p99|predicted|TPOT p50 "
      "ms|predicted|p99|predicted");
  for (const LoopPoint& point : points) {
    const auto guess = predicted(known, point);
    if (!guess) return bad_input("--against", "its points are too few to predict others");
    const auto seen = engine.play(point);
    if (engine.stopped()) return Exit::no;
    if (!seen) return failed(seen.error());
    std::vector<std::string> row{
        fmt::format("{}/{}", point.shape.tokens_in, point.shape.tokens_out),
        point.rate_rps > 0 ? fmt::format("{:.4g}/s", point.rate_rps)
                           : std::to_string(point.in_flight)};
    for (const auto time : {&llm::LoopTimes::ttft, &llm::LoopTimes::tpot})
      for (const auto at : {&LoopSeen::median, &LoopSeen::p99}) {
        const Millis measured = *seen.*at.*time, expected = *guess.*at.*time;
        row.push_back(fmt::format("{:.2f}", measured.value));
        row.push_back(
            fmt::format("{:.2f} ({:+.1f} %)", expected.value, 100 * off(expected, measured)));
      }
    note(context, joined(row, " ") + "\n");
    table.rows.push_back(std::move(row));
  }
  say(context, to_string(table));
  return Exit::done;
}

}  // namespace

Result<Exit> measure_engine(Context& context, const EngineMeasureFlags& flags) {
  auto told = TRY(llm::parse_told(flags.told));
  const auto shapes = TRY(parse_shapes(flags.shapes));
  const auto counts = TRY(serve::parse_counts("--in-flight", flags.in_flight, llm::kMostInFlight));
  const auto rates = TRY(parse_rates(flags.rates));
  const auto time = TRY(parse_duration("--kv-time", flags.kv_time));
  serve::LoadOptions options;
  auto url = TRY(parse_url_prefix("--openai", flags.url));
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  options.url = url;
  PointsFile file(context, flags.against.empty() ? flags.output : flags.against);
  TRY(file.read());
  RunningEngine engine(context, options);
  const auto met = engine.meet(flags.name);
  if (engine.stopped()) return Exit::no;
  if (!met) return failed(met.error());
  llm::Configuration& configuration = told.configuration;
  if (configuration.model.empty()) configuration.model = engine.name();
  if (flags.kv_probe) return probe_kv(context, engine, file, configuration, time);
  Asked asked{shapes, in_order(shapes, counts), !flags.rates.empty(), rates};
  if (flags.against.empty()) return fill(context, engine, file, configuration, asked);
  const llm::Measured& known = file.of(configuration);
  std::vector<LoopPoint> points = asked.open ? open_points(shapes, rates, known) : asked.closed;
  return compare(context, engine, known, points);
}

}  // namespace partita::cli
