#include "serve/measure_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/append.h"
#include "base/document.h"
#include "base/http/http_stream.h"
#include "base/split.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "llm/engine/engines.h"
#include "llm/runs.h"
#include "places.h"
#include "serve/load/load_run.h"
#include "serve/load/token_load.h"
#include "serve/measure/points.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr sim::Nanos kPatienceOfLoop = 600'000'000'000, kMetadataPatience = 10'000'000'000;
constexpr int kFewWords = 64, kManyWords = 192;  // of the prompts that tell tokens per word
// Errors of predictions that count as sure, and how many in a row.
constexpr double kSureTpot = 0.05, kSureTtft = 0.15;
constexpr int kSureInARow = 3;
constexpr sim::Nanos kPatienceOfOne = 30'000'000'000;
constexpr int kFine = 200;
constexpr std::size_t kShownOfBody = 120;  // of an answer that is no error in OpenAI's form
constexpr double kLeastOfAsked = 0.9;      // of the tokens

struct LoopPoint {
  llm::Shape shape;
  int in_flight = 1;
};

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

// The edges first, since what is between them may not have to be measured.
std::vector<LoopPoint> in_order(const std::vector<llm::Shape>& shapes,
                                const std::vector<int>& counts) {
  std::vector<LoopPoint> edges, inner;
  for (const int count : counts)
    for (const llm::Shape& shape : shapes)
      (count == counts.front() || count == counts.back() ? edges : inner).push_back({shape, count});
  edges.insert(edges.end(), inner.begin(), inner.end());
  return edges;
}

// What a loop came to, in milliseconds.
struct LoopSeen {
  llm::LoopTimes mean, median, p99;
  double tokens_per_s = 0;
};

LoopSeen seen_of(const serve::LoadTally& tally, double seconds) {
  const serve::TokenTally& tokens = tally.tokens;
  const auto ms = [](double nanos) { return Millis{nanos / 1e6}; };
  const auto both = [&](double percent) {
    return llm::LoopTimes{ms(static_cast<double>(tokens.ttft.percentile(percent))),
                          ms(static_cast<double>(tokens.tpot.percentile(percent)))};
  };
  return {{ms(tokens.ttft.mean()), ms(tokens.tpot.mean())},
          both(50),
          both(99),
          static_cast<double>(tokens.out) / std::max(seconds, 1e-9)};
}

// The same of a simulated loop, but for the rate.
LoopSeen seen_of(const std::vector<llm::LoopTimes>& times) {
  serve::LoadTally tally(0);
  const auto nanos = [](Millis ms) { return std::llround(ms.value * 1e6); };
  for (const llm::LoopTimes& one : times) {
    tally.tokens.ttft.add(nanos(one.ttft));
    tally.tokens.tpot.add(nanos(one.tpot));
  }
  return seen_of(tally, 1);
}

double off(Millis predicted, Millis measured) { return predicted.value / measured.value - 1; }

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

  // Asks for its name, unless it is said, and how its tokens and our words go together.
  Result<void> meet(const std::string& said) {
    name_ = said;
    if (name_.empty())
      if (auto asked = ask_name(); !asked) return asked;
    double tokens[2] = {};
    for (const int words : {kFewWords, kManyWords}) {
      const auto tally = run({{words, 2}}, 1);
      if (!tally) return failed(tally.error());
      tokens[words == kManyWords] = static_cast<double>(tally->first.tokens.in);
    }
    per_word_ = (tokens[1] - tokens[0]) / (kManyWords - kFewWords);
    extra_ = tokens[0] - per_word_ * kFewWords;
    if (tokens[0] > 0 && per_word_ >= 0.1) return {};
    return environment_error(authority_of(options_.url), "its streams end without usage");
  }

  Result<LoopSeen> play(const LoopPoint& point) {
    std::vector<plan::Length> lengths;
    double asked = 0;
    for (const llm::Request& request : llm::loop_requests(point.shape, point.in_flight))
      lengths.push_back({words_for(request.in), request.out}), asked += request.out;
    const auto tally = run(std::move(lengths), point.in_flight);
    if (!tally) return failed(tally.error());
    if (auto whole = check_lengths(tally->first, asked); !whole) return failed(whole.error());
    return seen_of(tally->first, tally->second);
  }

 private:
  int words_for(int tokens) const {
    return std::max(1, static_cast<int>(std::lround((tokens - extra_) / per_word_)));
  }

  Result<void> ask_name() {
    const auto dialer = serve::HttpDialer::to(options_.url, options_.tls);
    if (!dialer) return failed(dialer.error());
    const std::string what = authority_of(options_.url) + options_.url.path + "/v1/models";
    const auto answer = serve::fetch(*dialer,
                                     fmt::format("GET {}/v1/models HTTP/1.1\r\nHost: {}\r\n\r\n",
                                                 options_.url.path, authority_of(options_.url)),
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
  std::string fault_of(const plan::Length& length) {
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

  // The message of an error in OpenAI's form, else how the text begins.
  static std::string said_in(const std::string& body) {
    const auto document = parse_document("", body);
    const Node* const error = document ? document->root.find("error") : nullptr;
    const Node* const message = error != nullptr ? error->find("message") : nullptr;
    return utf8(printable(message != nullptr ? message->text : body.substr(0, kShownOfBody)));
  }

  // An engine that ends its answers early was measured at other shapes than it is asked about.
  Result<void> check_lengths(const serve::LoadTally& tally, double asked) const {
    const auto out = static_cast<double>(tally.tokens.out);
    const auto answers = static_cast<double>(std::max(1L, tally.completed()));
    if (out >= kLeastOfAsked * asked) return {};
    return environment_error(
        authority_of(options_.url),
        fmt::format(
            "its answers have {:.4g} tokens on average where {:.4g} were asked for, so that "
            "nothing is measured of such: it ends them by itself, although `ignore_eos` is "
            "asked for",
            out / answers, asked / answers));
  }

  // Every request is answered, or it is refused.
  Result<std::pair<serve::LoadTally, double>> run(std::vector<plan::Length> lengths,
                                                  int in_flight) {
    const std::size_t count = lengths.size();
    const plan::Length first = lengths.front();
    serve::LoadService service{.name = name_,
                               .slo = 0,
                               .arrivals = {},
                               .tokens = plan::TokenTerms{},
                               .in_flight = in_flight,
                               .lengths = std::move(lengths)};
    options_.connections = in_flight;
    ++options_.seed;  // other words: nothing of a prompt is cached
    const auto outcome = serve::run_load(options_, {std::move(service)}, context_.clock);
    if (!outcome) return failed(outcome.error());
    const serve::LoadTally& tally = outcome->services.front();
    if (!outcome->stopped && tally.completed() < static_cast<long>(count))
      return environment_error(authority_of(options_.url),
                               fmt::format("{} of {} requests were not answered whole; {}",
                                           count - tally.completed(), count, fault_of(first)));
    return std::pair{tally, outcome->answered_s};
  }

  Context& context_;
  serve::LoadOptions options_;
  StopRequest stop_;
  bool stopped_ = false;
  std::string name_;
  double per_word_ = 1, extra_ = 0;  // tokens
};

// What is in the file, and what comes to it.
class PointsFile {
 public:
  PointsFile(Context& context, std::string path) : context_(context), path_(std::move(path)) {}

  Result<void> read() {
    if (!context_.files.exists(path_)) return {};
    const Result<std::string> text = context_.files.read(path_);
    if (!text) return failed(text.error());
    auto points = llm::parse_points(path_, *text);
    if (!points) return failed(points.error());
    all_ = *std::move(points);
    return {};
  }

  llm::Measured& of(const llm::Configuration& configuration) {
    const auto found = std::ranges::find(all_, configuration, &llm::Measured::configuration);
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
  if (so_far.points.size() < llm::kLeastEnginePoints) return std::nullopt;
  const auto engine = llm::engine_of(so_far);
  if (!engine) return std::nullopt;
  const auto times =
      llm::loop_times(llm::learned_of(*engine, point.in_flight), point.shape, point.in_flight);
  return times ? std::optional(seen_of(*times)) : std::nullopt;
}

std::string point_text(const LoopPoint& point) {
  return fmt::format("{}/{} tokens, {} in flight", point.shape.tokens_in, point.shape.tokens_out,
                     point.in_flight);
}

// Measures what is not there; ends early once it is sure.
Result<Exit> fill(Context& context, RunningEngine& engine, PointsFile& file,
                  const llm::Configuration& configuration, const std::vector<LoopPoint>& points) {
  llm::Measured& measured = file.of(configuration);
  int sure = 0, fresh = 0;
  for (const LoopPoint& point : points) {
    const bool there = std::ranges::any_of(measured.points, [&](const llm::Point& p) {
      return p.shape == point.shape && p.concurrency == point.in_flight;
    });
    if (there) continue;
    const auto guess = predicted(measured, point);
    const auto seen = engine.play(point);
    if (engine.stopped()) {
      note(context, fmt::format("stopped; {} has {} points, and the same command goes on with the "
                                "rest\n",
                                file.path(), measured.points.size()));
      return Exit::no;
    }
    if (!seen) return failed(seen.error());
    measured.points.push_back(
        {point.shape, static_cast<double>(point.in_flight), seen->mean.ttft, seen->mean.tpot});
    if (auto saved = file.save(); !saved) return failed(saved.error());
    ++fresh;
    std::string beside;
    if (guess) {
      const double ttft = off(guess->mean.ttft, seen->mean.ttft);
      const double tpot = off(guess->mean.tpot, seen->mean.tpot);
      sure = std::abs(tpot) <= kSureTpot && std::abs(ttft) <= kSureTtft ? sure + 1 : 0;
      beside = fmt::format("; predicted {:+.0f} % and {:+.0f} %", 100 * ttft, 100 * tpot);
    }
    note(context,
         fmt::format("{}: TTFT {:.1f} ms, TPOT {:.2f} ms, {:.0f} tokens/s{}\n", point_text(point),
                     seen->mean.ttft.value, seen->mean.tpot.value, seen->tokens_per_s, beside));
    if (sure < kSureInARow) continue;
    note(context, fmt::format("the last {} were as predicted: that is enough\n", sure));
    break;
  }
  say(context, fmt::format("{}: {} points of '{}', {} of them new\n", file.path(),
                           measured.points.size(), configuration.model, fresh));
  return Exit::done;
}

// Plays every point, and shows what the points of `known` say of it.
Result<Exit> compare(Context& context, RunningEngine& engine, const llm::Measured& known,
                     const std::vector<LoopPoint>& points) {
  Table table{{"TOKENS IN/OUT", "IN FLIGHT", "TTFT p50 ms", "predicted", "p99", "predicted",
               "TPOT p50 ms", "predicted", "p99", "predicted"},
              {}};
  for (const LoopPoint& point : points) {
    const auto guess = predicted(known, point);
    if (!guess) return bad_input("--against", "its points are too few to predict others");
    const auto seen = engine.play(point);
    if (engine.stopped()) return Exit::no;
    if (!seen) return failed(seen.error());
    std::vector<std::string> row{
        fmt::format("{}/{}", point.shape.tokens_in, point.shape.tokens_out),
        std::to_string(point.in_flight)};
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
  auto told = llm::parse_told(flags.told);
  if (!told) return failed(told.error());
  const auto shapes = parse_shapes(flags.shapes);
  if (!shapes) return failed(shapes.error());
  const auto counts = serve::parse_counts("--in-flight", flags.in_flight, llm::kMostInFlight);
  if (!counts) return failed(counts.error());
  serve::LoadOptions options;
  auto url = parse_url_prefix("--openai", flags.url);
  if (!url) return failed(url.error());
  if (url->path.ends_with("/v1")) url->path.resize(url->path.size() - 3);
  options.url = *url;
  PointsFile file(context, flags.against.empty() ? flags.output : flags.against);
  if (auto read = file.read(); !read) return failed(read.error());
  RunningEngine engine(context, options);
  const auto met = engine.meet(flags.name);
  if (engine.stopped()) return Exit::no;
  if (!met) return failed(met.error());
  llm::Configuration& configuration = told->configuration;
  if (configuration.model.empty()) configuration.model = engine.name();
  const std::vector<LoopPoint> points = in_order(*shapes, *counts);
  if (flags.against.empty()) return fill(context, engine, file, configuration, points);
  return compare(context, engine, file.of(configuration), points);
}

}  // namespace partita::cli
