#include "llm/law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/index.h"
#include "base/numeric/nnls.h"

namespace partita::llm {
namespace {

// Chosen by cross-validation over the published configurations (docs/llm.md).
constexpr Belief kTpotBelief{.per_octave_in = 0.06,
                             .per_octave_out = 0.1,
                             .over_concurrency = 0.05,
                             .over_both = 0.05,
                             .concurrency_octaves = 2,
                             .shape_octaves = 0.5,
                             .noise = 0.03,
                             .freedom = 2};
constexpr Belief kTtftBelief{.per_octave_out = 0.08,
                             .over_concurrency = 0.14,
                             .over_shapes = 0.14,
                             .over_both = 0.28,
                             .concurrency_octaves = 1.43,
                             .shape_octaves = 2,
                             .noise = 0.2,
                             .freedom = 1};
// Relative errors of TTFT are lopsided: a queue makes it a hundred times what it was.
constexpr double kTtftModesty = 0.98;

constexpr double kTpotUsual = 0.03, kTtftUsual = 0.1;  // relative errors that are no outliers
constexpr int kFits = 6;                               // each weighs outliers anew

constexpr double kWaits = 0.9;           // fewer of those in flight run: perhaps the cache is full
constexpr std::size_t kMostLimits = 24;  // of the cache that are tried
constexpr double kConvincing = 0.5;  // by so much (in log errors, summed) a limit has to be better
constexpr double kWorst = 1;         // of one point's log error, in that sum
constexpr double kMostWait = 0.5;    // of a TTFT; where more of it is waiting the rest is not told

constexpr double kLeastMs = 1e-6;  // no time is shorter

// One row of a closed form: a point whose requests all run.
struct Running {
  double in, out, count;
};
using Terms = std::array<double, 5>;

Terms tpot_terms(const Running& r) {
  return {1, r.count, r.count * (r.in + r.out / 2), r.count * r.in / r.out, std::sqrt(r.count)};
}
Terms ttft_terms(const Running& r) {
  return {1, r.in, r.in * r.count, r.count, r.count * r.in / r.out};
}
double sum(const Terms& coefficients, const Terms& terms) {
  double all = 0;
  for (std::size_t k = 0; k < terms.size(); ++k) all += coefficients[k] * terms[k];
  return std::max(all, kLeastMs);
}

Place place_of(const Running& r) { return {std::log2(r.count), std::log2(r.in), std::log2(r.out)}; }

Running running(const CacheLimit& cache, const Shape& shape, double concurrency) {
  const double in = shape.tokens_in, out = shape.tokens_out;
  const double fit = cache.tokens / (in + cache.output_share * out);
  return {in, out, std::max(1.0, std::min(concurrency, fit))};
}

// Milliseconds until a request may start: the others of its turn run to their end before.
double wait_ms(const Running& r, double concurrency, double tpot_ms) {
  return r.out * tpot_ms * (concurrency / r.count - 1);
}

struct Row {
  Running at;
  double ms;
};

// One of the two closed forms, with its deviations.
struct Curve {
  Terms (*terms)(const Running&);
  double usual;  // relative error
  const Belief& belief;
};

struct Learned {
  Terms coefficients{};
  Deviation deviation;
};

// Least squares of relative errors; rows beyond the usual error count about as in least absolutes.
Terms closed_form(const std::vector<Row>& rows, const Curve& curve) {
  constexpr int kTerms = std::tuple_size_v<Terms>;
  std::vector<double> weights(rows.size(), 1);
  Terms found{};
  for (int round = 0; round < kFits; ++round) {
    numeric::DenseRows matrix = numeric::dense_rows(static_cast<int>(rows.size()), kTerms);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Terms terms = curve.terms(rows[i].at);
      for (int k = 0; k < kTerms; ++k)
        matrix.at(static_cast<int>(i), k) = weights[i] * terms[at(k)] / rows[i].ms;
    }
    std::ranges::copy(numeric::nnls(matrix, weights), found.begin());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double error = sum(found, curve.terms(rows[i].at)) / rows[i].ms - 1;
      weights[i] = 1 / std::sqrt(1 + std::pow(error / curve.usual, 2));
    }
  }
  return found;
}

Learned learn_curve(const std::vector<Row>& rows, const Curve& curve) {
  Learned learned{closed_form(rows, curve), {}};
  std::vector<Place> places;
  std::vector<double> ratios;
  for (const Row& row : rows) {
    places.push_back(place_of(row.at));
    ratios.push_back(std::log(row.ms / sum(learned.coefficients, curve.terms(row.at))));
  }
  learned.deviation = Deviation(std::move(places), ratios, curve.belief);
  return learned;
}

// The law if the cache is so large. `measured` stays empty.
TokenLaw law_with(const std::vector<Point>& points, const CacheLimit& cache) {
  std::vector<Row> tpot, ttft;
  for (const Point& point : points) {
    const Running at = running(cache, point.shape, point.concurrency);
    const double computed = point.ttft.value - wait_ms(at, point.concurrency, point.tpot.value);
    tpot.push_back({at, point.tpot.value});
    if (computed > (1 - kMostWait) * point.ttft.value) ttft.push_back({at, computed});
  }
  if (ttft.size() < 3) {  // all of them wait: what they measured is the best that is known
    ttft.clear();
    for (const Point& point : points)
      ttft.push_back({running(cache, point.shape, point.concurrency), point.ttft.value});
  }
  const Learned token = learn_curve(tpot, {tpot_terms, kTpotUsual, kTpotBelief});
  const Learned first = learn_curve(ttft, {ttft_terms, kTtftUsual, kTtftBelief});
  return {token.coefficients, first.coefficients, token.deviation, first.deviation, cache, {}};
}

// How badly a law says what it was learned from.
double misfit(const TokenLaw& law, const std::vector<Point>& points) {
  double all = 0;
  for (const Point& point : points) {
    const Expected e = expect(law, point.shape, point.concurrency);
    all += std::min(kWorst, std::abs(std::log(e.tpot / point.tpot)));
    all += std::min(kWorst, std::abs(std::log(e.ttft / point.ttft)));
  }
  return all;
}

// Limits of the cache that points suggest, those with the largest share of waiting first: by
// Little's law, of n requests in flight n x out TPOT / (TTFT + out TPOT) produce tokens.
std::vector<CacheLimit> possible_limits(const std::vector<Point>& points) {
  struct Suggested {
    double running_share;
    CacheLimit limit;
  };
  std::vector<Suggested> all;
  for (const Point& point : points) {
    const double output_ms = point.shape.tokens_out * point.tpot.value;
    const double share = output_ms / (output_ms + point.ttft.value);
    if (share > kWaits) continue;
    for (const double output_share : {0.5, 1.0})  // blocks on demand, or kept for the whole output
      all.push_back({share,
                     {share * point.concurrency *
                          (point.shape.tokens_in + output_share * point.shape.tokens_out),
                      output_share}});
  }
  std::ranges::stable_sort(all, {}, &Suggested::running_share);
  std::vector<CacheLimit> limits;
  for (const Suggested& one : all)
    if (limits.size() < kMostLimits) limits.push_back(one.limit);
  return limits;
}

}  // namespace

Result<TokenLaw> learn(const std::vector<Point>& points) {
  if (points.size() < kLeastPoints || points.size() > kMostPoints)
    return bad_input("", fmt::format("{} points of one configuration; a law needs {} to {}",
                                     points.size(), kLeastPoints, kMostPoints));
  TokenLaw best = law_with(points, {});
  double least = misfit(best, points) - kConvincing;
  for (const CacheLimit& limit : possible_limits(points)) {
    TokenLaw law = law_with(points, limit);
    const double now = misfit(law, points);
    if (now >= least) continue;
    least = now;
    best = std::move(law);
  }
  best.measured = range_of(points);
  return best;
}

Expected expect(const TokenLaw& law, const Shape& shape, double concurrency) {
  const Running at = running(law.cache, shape, concurrency);
  const Place place = place_of(at);
  const double tpot = sum(law.tpot_ms, tpot_terms(at)) * std::exp(law.tpot_deviation.at(place));
  const double first =
      kTtftModesty * sum(law.ttft_ms, ttft_terms(at)) * std::exp(law.ttft_deviation.at(place));
  return {.ttft = Millis{first + wait_ms(at, concurrency, tpot)},
          .tpot = Millis{tpot},
          .running = at.count,
          .shape_outside = !law.measured.holds(shape),
          .concurrency_outside = !law.measured.holds(concurrency)};
}

}  // namespace partita::llm
