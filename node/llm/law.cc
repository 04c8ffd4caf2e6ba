#include "llm/law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "base/index.h"
#include "base/median.h"
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
  double trust = 1;  // of a closed form; 1: a measurement of what it is of
};

// One of the two closed forms, with its deviations.
struct Curve {
  Terms (*terms)(const Running&);
  double usual;  // relative error
  const Belief& belief;
};

// Least squares of relative errors; rows beyond the usual error count about as in least absolutes.
Terms closed_form(const std::vector<Row>& rows, const Curve& curve) {
  constexpr int kTerms = std::tuple_size_v<Terms>;
  std::vector<double> weights;
  for (const Row& row : rows) weights.push_back(row.trust);
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
      weights[i] = rows[i].trust / std::sqrt(1 + std::pow(error / curve.usual, 2));
    }
  }
  return found;
}

constexpr Curve kTpot{tpot_terms, kTpotUsual, kTpotBelief};
constexpr Curve kTtft{ttft_terms, kTtftUsual, kTtftBelief};

Deviations deviations(const std::vector<Row>& rows, const Terms& coefficients, const Curve& curve) {
  Deviations seen;
  for (const Row& row : rows) {
    seen.places.push_back(place_of(row.at));
    seen.log_ratios.push_back(std::log(row.ms / sum(coefficients, curve.terms(row.at))));
  }
  return seen;
}

std::vector<Row> tpot_rows(const std::vector<Point>& points, const CacheLimit& cache) {
  std::vector<Row> rows;
  for (const Point& point : points)
    rows.push_back({running(cache, point.shape, point.concurrency), point.tpot.value});
  return rows;
}

// Without what they wait for others; those that do little else are left out.
std::vector<Row> ttft_rows(const std::vector<Point>& points, const CacheLimit& cache) {
  std::vector<Row> computed, whole;
  for (const Point& point : points) {
    const Running at = running(cache, point.shape, point.concurrency);
    const double ms = point.ttft.value - wait_ms(at, point.concurrency, point.tpot.value);
    if (ms > (1 - kMostWait) * point.ttft.value) computed.push_back({at, ms});
    whole.push_back({at, point.ttft.value});
  }
  return computed.size() < 3 ? whole : computed;  // all of them wait: it is the best that is known
}

// The law if the cache is so large. `measured` stays empty.
TokenLaw law_with(const std::vector<Point>& points, const CacheLimit& cache) {
  const std::vector<Row> tpot = tpot_rows(points, cache), ttft = ttft_rows(points, cache);
  TokenLaw law{closed_form(tpot, kTpot), closed_form(ttft, kTtft), {}, {}, cache, {}};
  law.tpot_deviation = Deviation(deviations(tpot, law.tpot_ms, kTpot), kTpot.belief);
  law.ttft_deviation = Deviation(deviations(ttft, law.ttft_ms, kTtft), kTtft.belief);
  return law;
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

// How alike their TTFTs go, from 0: the shares that differences leave are of the same search as
// the beliefs; errors change by 0.2 points at most where one is changed by a fifth.
double alike(const Configuration& a, const Configuration& b) {
  double share = 0.85;
  if (a.model != b.model) share *= 0.3;
  if (a.system != b.system) share *= 0.9;
  if (a.backend != b.backend) share *= 0.7;
  if (a.precision != b.precision) share *= 0.9;
  if (a.tensor != b.tensor) share *= 0.9;
  return share;
}

// One run under two names.
bool same_run(const std::vector<Point>& a, const std::vector<Point>& b) {
  const auto common = std::ranges::count_if(
      a, [&](const Point& point) { return std::ranges::find(b, point) != b.end(); });
  return static_cast<std::size_t>(3 * common) >= std::min(a.size(), b.size());
}

// The kin that are asked, the most alike first.
std::vector<const Kin*> closest(const Measured& measured, const std::vector<Kin>& kin) {
  std::vector<const Kin*> asked;
  for (const Kin& one : kin)
    if (one.measured.configuration != measured.configuration &&
        !same_run(measured.points, one.measured.points))
      asked.push_back(&one);
  std::ranges::stable_sort(asked, std::greater(), [&](const Kin* one) {
    return alike(measured.configuration, one->measured.configuration);
  });
  asked.resize(std::min(asked.size(), kMostKin));
  return asked;
}

constexpr double kCloseKin = 0.6;  // alike by so much, the cache that fits is about the same

// Tokens that fit by what kin on as many of the same GPUs tell; infinity: they tell nothing, or
// less than half of what was held here.
double kins_cache(const Measured& measured, const std::vector<const Kin*>& kin) {
  std::vector<double> told;
  for (const Kin* one : kin) {
    const Configuration &a = measured.configuration, &b = one->measured.configuration;
    if (std::isfinite(one->law.cache.tokens) && a.system == b.system && a.tensor == b.tensor &&
        alike(a, b) >= kCloseKin)
      told.push_back(one->law.cache.tokens);
  }
  double held = 0;
  for (const Point& point : measured.points)
    held = std::max(held, point.concurrency * (point.shape.tokens_in + point.shape.tokens_out));
  const double tokens = told.empty() ? 0 : median(told);
  return tokens < held / 2 || told.empty() ? CacheLimit().tokens : tokens;
}

// By so much a point of kin counts in the closed form, times their likeness to the fourth. With
// half of it errors of a concurrency left out are 0.15 points larger, with 2.5 times as much 0.35.
constexpr double kKinTrust = 0.8;

// The closed form of TTFT, which a few points of one configuration leave half open: kin's points
// tell of its shape, each of theirs scaled to what this one's form says where they were measured.
Terms form_with_kin(const Measured& measured, const TokenLaw& law,
                    const std::vector<const Kin*>& kin) {
  std::vector<Row> rows = ttft_rows(measured.points, law.cache);
  for (const Kin* one : kin) {
    std::vector<Row> theirs = ttft_rows(one->measured.points, one->law.cache);
    std::vector<double> ratios;
    for (const Row& row : theirs) ratios.push_back(row.ms / sum(law.ttft_ms, ttft_terms(row.at)));
    const double scale = median(ratios);
    const double share = alike(measured.configuration, one->measured.configuration);
    for (Row& row : theirs) {
      row.ms /= scale;
      row.trust = kKinTrust * std::pow(share, 4);
      rows.push_back(row);
    }
  }
  return closed_form(rows, kTtft);
}

}  // namespace

std::vector<Kin> kin_of(const std::vector<Measured>& all) {
  std::vector<Kin> kin;
  for (const Measured& one : all)
    if (Result<TokenLaw> law = learn(one.points)) kin.push_back({one, *std::move(law)});
  return kin;
}

Result<TokenLaw> learn(const Measured& measured, const std::vector<Kin>& kin) {
  Result<TokenLaw> law = learn(measured.points);
  if (!law) return law;
  const std::vector<const Kin*> asked = closest(measured, kin);
  if (asked.empty()) return law;
  const double tokens = kins_cache(measured, asked);
  if (!std::isfinite(law->cache.tokens) && std::isfinite(tokens)) {
    const MeasuredRange range = law->measured;
    law = law_with(measured.points, {.tokens = tokens});
    law->measured = range;
  }
  law->ttft_ms = form_with_kin(measured, *law, asked);
  const auto seen_of = [](const std::vector<Point>& points, const TokenLaw& of) {
    return deviations(ttft_rows(points, of.cache), of.ttft_ms, kTtft);
  };
  std::vector<Deviations> seen{seen_of(measured.points, *law)};
  std::vector<const Configuration*> whose{&measured.configuration};
  for (const Kin* one : asked) {
    seen.push_back(seen_of(one->measured.points, one->law));
    whose.push_back(&one->measured.configuration);
  }
  law->ttft_deviation = Deviation(
      seen, [&](std::size_t i, std::size_t j) { return alike(*whose[i], *whose[j]); },
      kTtft.belief);
  return law;
}

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
