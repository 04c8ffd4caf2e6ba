#include "llm/engine/learned.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

#include "base/index.h"
#include "base/numeric/nnls.h"
#include "base/rng.h"

namespace partita::llm {
namespace {

constexpr int kRequestsPerLoop = 10;  // per one in flight
constexpr double kShortest = 0.8;     // of a shape's lengths
constexpr std::uint64_t kSeed = 1;

constexpr double StepCost::*kCosts[] = {&StepCost::step,           &StepCost::sequence,
                                        &StepCost::root_sequences, &StepCost::cached_token,
                                        &StepCost::prompt_token,   &StepCost::prompt_context};
constexpr int kSteps = std::size(kCosts);
constexpr int kColumns = kSteps + 2;  // with `request` and `prompt_token` of LearnedEngine

// Relative errors that are no outliers; TTFT is measured less precisely, and counts less.
constexpr double kTpotUsual = 0.03, kTtftUsual = 0.1, kTtftWeight = 0.3;
constexpr int kFits = 6;  // each weighs outliers anew

Result<std::vector<LoopTimes>> times_of(const EngineSpec& spec,
                                        const std::vector<Request>& requests, int in_flight) {
  const Result<EngineRun> run = simulate(spec, requests, {.in_flight = in_flight});
  if (!run) return failed(run.error());
  std::vector<LoopTimes> times;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Served& served = run->requests[i];
    if (served.refused)
      return bad_input("", fmt::format("{} tokens in and {} out do not fit in the KV cache",
                                       requests[i].in, requests[i].out));
    times.push_back({served.ttft(), tpot(served, requests[i])});
  }
  return times;
}

LoopTimes mean_of(const std::vector<LoopTimes>& times) {
  LoopTimes sum;
  for (const LoopTimes& one : times) {
    sum.ttft += one.ttft;
    sum.tpot += one.tpot;
  }
  const double count = static_cast<double>(times.size());
  return {sum.ttft / count, sum.tpot / count};
}

// What each constant adds to TTFT and TPOT, per millisecond of it.
struct Shares {
  std::array<double, kColumns> ttft{}, tpot{};
};

Result<Shares> shares_of(const EngineSpec& spec, const Shape& shape, int in_flight) {
  const std::vector<Request> requests = loop_requests(shape, in_flight);
  Shares shares;
  for (int k = 0; k < kSteps; ++k) {
    EngineSpec one = spec;
    one.cost = {};
    one.cost.*kCosts[k] = 1;
    const auto times = times_of(one, requests, in_flight);
    if (!times) return failed(times.error());
    const LoopTimes mean = mean_of(*times);
    shares.ttft[at(k)] = mean.ttft.value;
    shares.tpot[at(k)] = mean.tpot.value;
  }
  double tokens = 0;
  for (const Request& request : requests) tokens += request.in;
  shares.ttft[at(kSteps)] = 1;
  shares.ttft[at(kSteps + 1)] = tokens / static_cast<double>(requests.size());
  return shares;
}

struct Row {
  std::array<double, kColumns> shares;
  double ms, usual, weight;
};

std::vector<double> fitted(const std::vector<Row>& rows) {
  std::vector<double> weights, found;
  for (const Row& row : rows) weights.push_back(row.weight);
  for (int fit = 0; fit < kFits; ++fit) {
    numeric::DenseRows matrix = numeric::dense_rows(static_cast<int>(rows.size()), kColumns);
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (int k = 0; k < kColumns; ++k)
        matrix.at(static_cast<int>(i), k) = weights[i] * rows[i].shares[at(k)] / rows[i].ms;
    found = numeric::nnls(matrix, weights);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double sum = 0;
      for (int k = 0; k < kColumns; ++k) sum += found[at(k)] * rows[i].shares[at(k)];
      weights[i] =
          rows[i].weight / std::sqrt(1 + std::pow((sum / rows[i].ms - 1) / rows[i].usual, 2));
    }
  }
  return found;
}

}  // namespace

Result<LearnedEngine> learn_engine(const std::vector<Point>& points, const EngineSpec& spec) {
  if (points.size() < kLeastEnginePoints)
    return bad_input("", fmt::format("{} points of an engine; its constants need {}", points.size(),
                                     kLeastEnginePoints));
  std::map<std::pair<Shape, int>, Shares> known;
  std::vector<Row> rows;
  for (const Point& point : points) {
    const int in_flight = static_cast<int>(std::lround(std::min(point.concurrency, 1e9)));
    if (in_flight > kMostInFlight)
      return bad_input(
          "", fmt::format("{} requests in flight; {} are the limit", in_flight, kMostInFlight));
    const auto [place, added] = known.try_emplace({point.shape, in_flight});
    if (added) {
      const Result<Shares> shares = shares_of(spec, point.shape, in_flight);
      if (!shares) return failed(shares.error());
      place->second = *shares;
    }
    if (point.shape.tokens_out > 1)
      rows.push_back({place->second.tpot, point.tpot.value, kTpotUsual, 1});
    rows.push_back({place->second.ttft, point.ttft.value, kTtftUsual, kTtftWeight});
  }
  const std::vector<double> found = fitted(rows);
  LearnedEngine learned{spec, Millis{found[at(kSteps)]}, found[at(kSteps + 1)]};
  for (int k = 0; k < kSteps; ++k) learned.spec.cost.*kCosts[k] = found[at(k)];
  return learned;
}

std::vector<Request> loop_requests(const Shape& shape, int in_flight) {
  Rng rng(kSeed);
  const auto about = [&](int tokens) {
    return std::max(
        1, static_cast<int>(std::lround((kShortest + (1 - kShortest) * rng.uniform()) * tokens)));
  };
  std::vector<Request> requests(at(kRequestsPerLoop * in_flight));
  for (Request& request : requests) {
    request.in = about(shape.tokens_in);
    request.out = about(shape.tokens_out);
  }
  return requests;
}

Result<std::vector<LoopTimes>> loop_times(const LearnedEngine& engine, const Shape& shape,
                                          int in_flight) {
  if (in_flight < 1 || in_flight > kMostInFlight)
    return bad_input(
        "", fmt::format("{} requests in flight, must be 1 to {}", in_flight, kMostInFlight));
  const std::vector<Request> requests = loop_requests(shape, in_flight);
  auto times = times_of(engine.spec, requests, in_flight);
  if (!times) return times;
  for (std::size_t i = 0; i < times->size(); ++i)
    (*times)[i].ttft += engine.request + Millis{engine.prompt_token * requests[i].in};
  return times;
}

Result<LoopTimes> closed_loop(const LearnedEngine& engine, const Shape& shape, int in_flight) {
  const auto times = loop_times(engine, shape, in_flight);
  if (!times) return failed(times.error());
  return mean_of(*times);
}

}  // namespace partita::llm
