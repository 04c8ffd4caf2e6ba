#include "serve/measure_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "base/table.h"
#include "flags.h"
#include "llm/engine/engines.h"
#include "llm/runs.h"
#include "serve/measure/points.h"
#include "serve/running_engine.h"

namespace partita::cli {
namespace {

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
    const std::string text = TRY(context_.files.read(path_));
    all_ = TRY(llm::parse_points(path_, text));
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
