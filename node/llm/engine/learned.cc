#include "llm/engine/learned.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/index.h"
#include "base/numeric/nnls.h"
#include "base/rng.h"
#include "plan/arrivals.h"

namespace partita::llm {
namespace {

constexpr int kRequestsPerLoop = 10;  // per one in flight
constexpr double kShortest = 0.8;     // of a shape's lengths
constexpr std::uint64_t kSeed = 1;

constexpr double StepCost::*kCosts[] = {&StepCost::step,           &StepCost::sequence,
                                        &StepCost::root_sequences, &StepCost::cached_token,
                                        &StepCost::prompt_token,   &StepCost::prompt_context,
                                        &StepCost::mixed};
constexpr int kSteps = std::size(kCosts);
constexpr int kRoot = 2, kMixed = 6;
// With `request` and `prompt_token` of LearnedEngine; then `crowded` from each of some numbers on.
constexpr int kColumns = kSteps + 2;
constexpr int kMostKnots = 3;

int in_flight_of(const Point& point) {
  return static_cast<int>(std::lround(std::min(point.concurrency, 1e9)));
}

// Relative errors that are no outliers; TTFT is measured less precisely, and counts less.
constexpr double kTpotUsual = 0.03, kTtftUsual = 0.1, kTtftWeight = 0.3;
constexpr int kFits = 6;  // each weighs outliers anew
// So many points may tell of constants beyond the usual ones. Each has to lower the fit's loss by
// so much, one with a number of sequences that was chosen by twice that.
constexpr std::size_t kManyPoints = 9;
constexpr double kWorth = 2;

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

using Factors = std::vector<double>;  // of each column

// What each constant adds to TTFT and TPOT, per millisecond of it.
struct Shares {
  Factors ttft, tpot;
};

Result<Shares> shares_of(const EngineSpec& spec, const Shape& shape, int in_flight,
                         const std::vector<int>& knots) {
  const std::vector<Request> requests = loop_requests(shape, in_flight);
  const int columns = kColumns + static_cast<int>(knots.size());
  Shares shares{Factors(at(columns)), Factors(at(columns))};
  for (int k = 0; k < columns; ++k) {
    if (k >= kSteps && k < kColumns) continue;
    EngineSpec one = spec;
    one.cost = {};
    if (k < kSteps)
      one.cost.*kCosts[k] = 1;
    else
      one.cost.crowded = 1, one.cost.crowded_from = knots[at(k - kColumns)];
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
  Factors shares;
  double ms, usual, weight;
};

double sum_of(const Factors& factors, const std::vector<double>& constants) {
  double sum = 0;
  for (std::size_t k = 0; k < factors.size(); ++k) sum += constants[k] * factors[k];
  return sum;
}

struct Fit {
  std::vector<int> columns;  // that may be above 0
  std::vector<double> constants = {};
  std::vector<double> weights = {};  // of the rows, outliers weighed down
  double loss = 0;
};

numeric::DenseRows weighed(const std::vector<Row>& rows, const Fit& fit, int more = 0) {
  const int columns = static_cast<int>(fit.columns.size());
  numeric::DenseRows matrix = numeric::dense_rows(static_cast<int>(rows.size()) + more, columns);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int k = 0; k < columns; ++k)
      matrix.at(static_cast<int>(i), k) =
          fit.weights[i] * rows[i].shares[at(fit.columns[at(k)])] / rows[i].ms;
  return matrix;
}

// Of all columns, from those of the fit's.
std::vector<double> spread(const Fit& fit, const std::vector<double>& found, std::size_t columns) {
  std::vector<double> constants(columns);
  for (std::size_t k = 0; k < found.size(); ++k) constants[at(fit.columns[k])] = found[k];
  return constants;
}

Fit fitted(const std::vector<Row>& rows, std::vector<int> columns) {
  Fit fit{std::move(columns)};
  for (const Row& row : rows) fit.weights.push_back(row.weight);
  for (int round = 0; round < kFits; ++round) {
    fit.constants =
        spread(fit, numeric::nnls(weighed(rows, fit), fit.weights), rows.front().shares.size());
    fit.loss = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double off = sum_of(rows[i].shares, fit.constants) / rows[i].ms - 1;
      const double outlying = 1 + std::pow(off / rows[i].usual, 2);
      fit.weights[i] = rows[i].weight / std::sqrt(outlying);
      fit.loss += rows[i].weight * rows[i].weight * std::log(outlying);
    }
  }
  return fit;
}

// What points say of a sum of the constants, each times its factor.
class Evidence {
 public:
  Evidence(const std::vector<Row>& rows, const Fit& fit)
      : rows_(rows), fit_(fit), least_(off(fit.constants)) {}

  // Whether they rule out that it is twice as much; what costs nothing is told by none.
  bool tells(const Factors& sum) const {
    const double found = sum_of(sum, fit_.constants);
    return found > 0 && rules_out(held(sum, 2 * found));
  }
  // The constants of which the sum is largest, of those that they do not rule out; at least `from`.
  std::vector<double> largest(const Factors& sum, double from) const {
    double low = std::max(from, sum_of(sum, fit_.constants)), high = 2 * low;
    while (!rules_out(held(sum, high)) && high < kEndless * low) high *= 2;
    while (high > kNear * low) {
      const double middle = std::sqrt(low * high);
      (rules_out(held(sum, middle)) ? high : low) = middle;
    }
    return held(sum, low);
  }

 private:
  static constexpr double kHeld = 300, kEndless = 1e6, kNear = 1.01;

  // In units of usual errors, squared.
  double off(const std::vector<double>& constants) const {
    double sum = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const double error = sum_of(rows_[i].shares, constants) / rows_[i].ms - 1;
      sum += std::pow(fit_.weights[i] / kTpotUsual * error, 2);
    }
    return sum;
  }
  bool rules_out(const std::vector<double>& constants) const {
    return off(constants) - least_ > kRuledOut;
  }
  std::vector<double> held(const Factors& sum, double value) const {
    const int last = static_cast<int>(rows_.size());
    numeric::DenseRows matrix = weighed(rows_, fit_, 1);
    std::vector<double> wanted = fit_.weights;
    for (std::size_t k = 0; k < fit_.columns.size(); ++k)
      matrix.at(last, static_cast<int>(k)) = kHeld * sum[at(fit_.columns[k])] / value;
    wanted.push_back(kHeld);
    return spread(fit_, numeric::nnls(matrix, wanted), sum.size());
  }

  const std::vector<Row>& rows_;
  const Fit& fit_;
  const double least_;
};

// Whether some had the engine to themselves, with prompts of different lengths: a prompt costs at
// most what those took longer.
bool bounds_prompts(const std::vector<Point>& points) {
  constexpr double kLonger = 1.5;
  double least = 0, most = 0;
  for (const Point& point : points) {
    if (point.concurrency > 1) continue;
    least = least > 0 ? std::min<double>(least, point.shape.tokens_in) : point.shape.tokens_in;
    most = std::max<double>(most, point.shape.tokens_in);
  }
  return least > 0 && most >= kLonger * least;
}

// Numbers of sequences from which on steps may be crowded: some that were measured, between others.
std::vector<int> knots_of(const std::vector<Point>& points) {
  std::set<int> counts;
  for (const Point& point : points) counts.insert(in_flight_of(point));
  if (points.size() < kManyPoints || counts.size() < 3) return {};
  const std::vector<int> between(std::next(counts.begin()), std::prev(counts.end()));
  const int all = static_cast<int>(between.size()), some = std::min(all, kMostKnots);
  std::vector<int> knots;
  for (int k = 0; k < some; ++k) knots.push_back(between[at((2 * k + 1) * all / (2 * some))]);
  return knots;
}

// The usual constants, and what else is worth it.
std::vector<Fit> fits_of(const std::vector<Row>& rows, const std::vector<Point>& points) {
  std::vector<int> usual;
  for (int k = 0; k < kColumns; ++k)
    if (k != kMixed) usual.push_back(k);
  std::vector<Fit> fits = {fitted(rows, usual)};
  if (points.size() < kManyPoints) return fits;
  const int columns = static_cast<int>(rows.front().shares.size());
  std::optional<Fit> best;
  double least = fits.front().loss;
  for (const bool mixed : {false, true})
    for (int crowded = kColumns - 1; crowded < columns; ++crowded) {
      const bool bends = crowded >= kColumns;
      const double worth = kWorth * (mixed + 2 * bends);
      if (worth == 0 || worth >= fits.front().loss) continue;
      std::vector<int> chosen = usual;
      if (mixed) chosen.push_back(kMixed);
      if (bends) std::erase(chosen, kRoot);
      if (bends) chosen.push_back(crowded);
      Fit fit = fitted(rows, std::move(chosen));
      if (fit.loss + worth >= least) continue;
      least = fit.loss + worth;
      best = std::move(fit);
    }
  if (best) fits.insert(fits.begin(), *std::move(best));
  return fits;
}

// What is not told is as slow as it may be. Returns whether prompts are told.
bool made_slow(const std::vector<Row>& rows, const std::vector<Point>& points, Fit& fit) {
  double logs = 0, fastest = points.front().tpot.value;
  for (const Point& point : points) {
    logs += std::log(point.shape.tokens_in);
    fastest = std::min(fastest, point.tpot.value);
  }
  const double length = std::exp(logs / static_cast<double>(points.size()));
  Factors step = {1, 1, 1, length}, prompt = {0, 0, 0, 0, length, length * length / 2};
  step.resize(rows.front().shares.size());
  prompt.resize(rows.front().shares.size());
  if (const Evidence evidence(rows, fit); !evidence.tells(step))
    fit.constants = evidence.largest(step, 1e-3 * fastest);
  if (Evidence(rows, fit).tells(prompt)) return true;
  if (!bounds_prompts(points)) return false;
  // Part of a TTFT may be outside of steps, or none is.
  fit.constants = Evidence(rows, fit).largest(prompt, 1e-3 * fastest);
  return true;
}

LearnedEngine learned_from(const std::vector<Row>& rows, const std::vector<Point>& points,
                           const EngineSpec& spec, const std::vector<int>& knots) {
  std::vector<Fit> fits = fits_of(rows, points);
  Fit* fit = &fits.front();
  bool told = made_slow(rows, points, *fit);
  if (!told && fits.size() > 1) {  // with fewer constants they may be
    fit = &fits.back();
    told = made_slow(rows, points, *fit);
  }
  LearnedEngine learned{spec, Millis{fit->constants[at(kSteps)]}, fit->constants[at(kSteps + 1)]};
  for (int k = 0; k < kSteps; ++k) learned.spec.cost.*kCosts[k] = fit->constants[at(k)];
  for (std::size_t k = 0; k < knots.size(); ++k)
    if (const double crowded = fit->constants[at(kColumns) + k]; crowded > 0) {
      learned.spec.cost.crowded = crowded;
      learned.spec.cost.crowded_from = knots[k];
    }
  learned.prompts_told = told;
  return learned;
}

}  // namespace

Result<LearnedEngine> learn_engine(const std::vector<Point>& points, const EngineSpec& spec) {
  if (points.size() < kLeastEnginePoints)
    return bad_input("", fmt::format("{} points of an engine; its constants need {}", points.size(),
                                     kLeastEnginePoints));
  const std::vector<int> knots = knots_of(points);
  std::map<std::pair<Shape, int>, Shares> known;
  std::vector<Row> rows;
  for (const Point& point : points) {
    const int in_flight = in_flight_of(point);
    if (in_flight > kMostInFlight)
      return bad_input(
          "", fmt::format("{} requests in flight; {} are the limit", in_flight, kMostInFlight));
    const auto [place, added] = known.try_emplace({point.shape, in_flight});
    if (added) {
      const Result<Shares> shares = shares_of(spec, point.shape, in_flight, knots);
      if (!shares) return failed(shares.error());
      place->second = *shares;
    }
    if (point.shape.tokens_out > 1)
      rows.push_back({place->second.tpot, point.tpot.value, kTpotUsual, 1});
    rows.push_back({place->second.ttft, point.ttft.value, kTtftUsual, kTtftWeight});
  }
  return learned_from(rows, points, spec, knots);
}

namespace {

std::vector<Request> requests_of_shape(const Shape& shape, std::size_t count) {
  Rng rng(kSeed);
  const auto about = [&](int tokens) {
    return std::max(
        1, static_cast<int>(std::lround((kShortest + (1 - kShortest) * rng.uniform()) * tokens)));
  };
  std::vector<Request> requests(count);
  for (Request& request : requests) {
    request.in = about(shape.tokens_in);
    request.out = about(shape.tokens_out);
  }
  return requests;
}

Result<std::vector<LoopTimes>> with_outside(const LearnedEngine& engine,
                                            const std::vector<Request>& requests, int in_flight) {
  auto times = times_of(engine.spec, requests, in_flight);
  if (!times) return times;
  for (std::size_t i = 0; i < times->size(); ++i)
    (*times)[i].ttft += engine.request + Millis{engine.prompt_token * requests[i].in};
  return times;
}

}  // namespace

std::vector<Request> loop_requests(const Shape& shape, int in_flight) {
  return requests_of_shape(shape, at(kRequestsPerLoop * in_flight));
}

std::vector<Request> open_requests(const Shape& shape, Rps rate) {
  std::vector<Request> requests = requests_of_shape(shape, kOpenRequests);
  auto arrivals = plan::ArrivalSource::poisson(rate, Rng(kSeed).split(1));
  for (Request& request : requests)
    request.arrival = Millis{1e-6 * static_cast<double>(arrivals.next())};
  return requests;
}

Result<std::vector<LoopTimes>> loop_times(const LearnedEngine& engine, const Shape& shape,
                                          int in_flight) {
  if (in_flight < 1 || in_flight > kMostInFlight)
    return bad_input(
        "", fmt::format("{} requests in flight, must be 1 to {}", in_flight, kMostInFlight));
  return with_outside(engine, loop_requests(shape, in_flight), in_flight);
}

Result<std::vector<LoopTimes>> open_times(const LearnedEngine& engine, const Shape& shape,
                                          Rps rate) {
  return with_outside(engine, open_requests(shape, rate), 0);
}

Result<LoopTimes> closed_loop(const LearnedEngine& engine, const Shape& shape, int in_flight) {
  const auto times = loop_times(engine, shape, in_flight);
  if (!times) return failed(times.error());
  return mean_of(*times);
}

}  // namespace partita::llm
