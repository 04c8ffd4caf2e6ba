// Experiments that tests and benchmarks repeat; they alone include this. Synthetic micro-benchmarks
// with the energies of the dissertation's Table 5.1, and co-located tenants made of the kernels
// that AccelWattch measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "model/energy/attribution.h"
#include "model/energy/fit.h"

namespace partita::energy {

inline double gaussian(Rng& rng) {
  const double radius = std::sqrt(2 * rng.exponential());
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

// ---- Table 5.1 (DECODE INT FP DP MUL32 SFU RF L1 SHRD L2 DRAM), joules per access

inline const std::vector<double>& table51() {
  static const std::vector<double> joules{2.5e-11,  3.42e-11, 3.35e-11, 6.59e-10, 2.31e-9, 9.52e-10,
                                          6.05e-12, 6.15e-11, 5.72e-11, 6.87e-11, 2.17e-10};
  return joules;
}

struct MicroSuite {
  numeric::DenseRows accesses;
  std::vector<double> joules;  // measured per instruction
};

// Micro-benchmarks of one instruction, or of two in turn: decoded, operands from registers, one
// unit; moves and branches have none; loads reach as far as their level. `noise` is relative; a
// share of `outliers` of the rows is off by a factor between 1.5 and 4, either way.
inline MicroSuite micro_suite(std::uint64_t seed, int rows, double noise, double outliers) {
  constexpr int kDecode = 0, kRf = 6, kL1 = 7, kShared = 8, kL2 = 9, kDram = 10, kCount = 11;
  const auto use = [](numeric::DenseRows& x, int r, int kind) {
    x.at(r, kDecode) += 1;
    if (kind >= 1 && kind <= 5) x.at(r, kind) += 1;
    if (kind == 6) x.at(r, kRf) += 4;  // moves of several words
    if (kind >= 7 && kind != kShared) x.at(r, kL1) += 1;
    if (kind == kShared) x.at(r, kShared) += 1;
    if (kind >= kL2) x.at(r, kL2) += 1;
    if (kind == kDram) x.at(r, kDram) += 1;
  };
  Rng rng(seed);
  MicroSuite suite{numeric::dense_rows(rows, kCount), {}};
  for (int r = 0; r < rows; ++r) {
    numeric::DenseRows& x = suite.accesses;
    x.at(r, kRf) = static_cast<double>(rng.below(4));
    use(x, r, r % 11);
    if (rng.uniform() < 0.5) use(x, r, static_cast<int>(rng.below(11)));
  }
  // Outliers are as many rows as asked for, any of them.
  std::vector<double> factor(static_cast<std::size_t>(rows), 1);
  for (int left = static_cast<int>(std::lround(outliers * rows)); left > 0;) {
    double& one = factor[rng.below(static_cast<std::uint64_t>(rows))];
    if (one != 1) continue;
    one = 1.5 + 2.5 * rng.uniform();
    if (rng.uniform() < 0.5) one = 1 / one;
    --left;
  }
  suite.joules = numeric::product(suite.accesses, table51());
  for (int r = 0; r < rows; ++r)
    suite.joules[static_cast<std::size_t>(r)] *=
        factor[static_cast<std::size_t>(r)] * std::max(0.2, 1 + noise * gaussian(rng));
  return suite;
}

// What another GPU's table may say: energies off by up to a factor of 2, believed +-100 %.
inline std::vector<numeric::Belief> other_table(std::uint64_t seed) {
  Rng rng = Rng(seed).split(1);
  std::vector<numeric::Belief> beliefs;
  for (const double joules : table51()) {
    const double other = joules * std::exp2(2 * rng.uniform() - 1);
    beliefs.push_back({other, other});
  }
  return beliefs;
}

// Largest relative error of a coefficient.
inline double worst_error(const std::vector<double>& found) {
  double worst = 0;
  for (std::size_t c = 0; c < found.size(); ++c)
    worst = std::max(worst, std::abs(found[c] / table51()[c] - 1));
  return worst;
}

// ---- kernels of AccelWattch

inline CounterTable accelwattch(const std::string& name) {
  const std::string folder = "data/published/accelwattch/";
  const auto components =
      parse_component_columns(folder + "components.yaml", source_text(folder + "components.yaml"));
  CHECK(components.has_value());
  auto table =
      parse_counters(folder + name, source_text(folder + name), {*components, "board_w", 0, true});
  CHECK(table.has_value());
  return *std::move(table);
}

// What is used for its tables: AccelWattch's own watts are believed within a factor.
inline FitOptions accelwattch_options(numeric::Loss loss = numeric::Loss::huber) {
  FitOptions options;
  options.loss = loss;
  options.prior_for_all = 1;
  options.deviation = 2;
  return options;
}

// ---- tenants on one board

// What counts as idle, and so as nobody's: the board's constant power, so that truth is what was
// measured and nothing else; or static power (leakage of the SMs) too, which is a model's.
enum class BoardIdle { constant, constant_and_static };
inline constexpr Watts kVoltaConstant{32.3252};

struct CoLocation {
  Ledger ledger;              // a tenant and an account per instance
  std::vector<double> truth;  // joules above idle, per tenant
};

// The same rows without their first component, which is idle: what is left is fitted above it.
inline CounterTable above_idle(CounterTable table) {
  table.components.erase(table.components.begin());
  for (CounterRow& row : table.rows) {
    row.measured = std::max(1.0, row.measured - row.accesses.front());
    row.accesses.erase(row.accesses.begin());
  }
  return table;
}

// What a model expects of a kernel on a whole board above idle, from counters that are off.
struct Expected {
  double watts = 0, error = 0;
};

inline Expected expected(const EnergyModel& model, const CounterRow& kernel, double noise,
                         BoardIdle idle, Rng& rng) {
  std::vector<double> seen = kernel.accesses;
  const bool above = idle == BoardIdle::constant_and_static;  // what the model is fitted to
  if (above) {
    seen.erase(seen.begin());
  } else {
    seen[0] -= kVoltaConstant.value;
  }
  double variance = 0;
  for (std::size_t c = 0; c < seen.size(); ++c) {
    seen[c] *= std::max(0.0, 1 + noise * gaussian(rng));
    variance += std::pow(noise * seen[c] * model.components[c].joules, 2);
  }
  const double watts = predict(model, seen);
  const double missed = model.residual_scale * (watts + (above ? 0 : kVoltaConstant.value));
  variance += missed * missed + std::pow(prediction_error(model, seen), 2);
  return {watts, std::sqrt(variance) / std::max(watts, 1e-9)};
}

// A random layout of seven slices with a kernel per instance, as busy as chance has it (0.1 to 1).
// The model is fitted to all other kernels, above idle where that differs between rows; every
// counter, and the readings of activity, are off by
// `noise`. Power is assumed to add up.
inline CoLocation co_location(const CounterTable& kernels, std::uint64_t seed, double noise,
                              BoardIdle idle) {
  static const std::vector<std::vector<int>> layouts{
      {4, 3},    {3, 3},       {4, 2, 1},    {3, 2, 1, 1},
      {2, 2, 3}, {2, 2, 2, 1}, {4, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}};
  Rng rng(seed);
  const std::vector<int>& layout = layouts[rng.below(layouts.size())];
  std::vector<std::size_t> chosen;
  while (chosen.size() < layout.size()) {
    const std::size_t k = rng.below(kernels.rows.size());
    if (std::ranges::find(chosen, k) == chosen.end()) chosen.push_back(k);
  }
  CounterTable others = kernels;
  others.rows.clear();
  for (std::size_t k = 0; k < kernels.rows.size(); ++k)
    if (std::ranges::find(chosen, k) == chosen.end()) others.rows.push_back(kernels.rows[k]);
  const auto model =
      fit(idle == BoardIdle::constant ? others : above_idle(others), accelwattch_options());
  CHECK(model.has_value());

  CoLocation out;
  out.ledger.tenants = static_cast<int>(layout.size());
  out.ledger.boards.push_back({{}, kVoltaConstant, {0}});
  BoardInterval interval{kVoltaConstant.value, {1}, true, {}};
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const CounterRow& kernel = kernels.rows[chosen[i]];
    InstanceUse use;
    use.account = static_cast<int>(i);
    use.share = layout[i] / 7.0;
    const double duty = 0.1 + 0.9 * rng.uniform();
    const double rest = idle == BoardIdle::constant ? kVoltaConstant.value : kernel.accesses[0];
    out.truth.push_back(use.share * duty * std::max(1.0, kernel.measured - rest));
    use.duty = std::clamp(duty * (1 + noise * gaussian(rng)), 0.0, 1.0);
    const Expected whole = expected(*model, kernel, noise, idle, rng);
    use.watts = use.share * duty * whole.watts;
    use.error = whole.error;
    // A busy 1g reads 1, a busy 2g 1/2, a busy 3g 1/3.
    use.engine = use.duty / layout[i];
    interval.uses.push_back(use);
    interval.joules += out.truth.back();
    out.ledger.accounts.push_back({0, static_cast<int>(i)});
  }
  out.ledger.boards[0].intervals.push_back(std::move(interval));
  return out;
}

// Over many co-locations: wrong joules over all joules (each wrong joule counts at who got it and
// at who did not), and the median of the worst tenant's relative error.
struct Misattribution {
  double share = 0, worst = 0;
  double covered = 0;  // of tenants: true joules within two standard deviations
};

inline Misattribution misattribution(const CounterTable& kernels, SplitRule rule, BoardIdle idle,
                                     int trials) {
  double wrong = 0, all = 0, covered = 0, tenants = 0;
  std::vector<double> worst;
  for (int t = 0; t < trials; ++t) {
    const CoLocation place = co_location(kernels, 1000 + static_cast<std::uint64_t>(t), 0.1, idle);
    const Attribution found = attribute(place.ledger, rule, IdlePolicy::unassigned);
    worst.push_back(0);
    for (std::size_t i = 0; i < place.truth.size(); ++i) {
      const double joules = static_cast<double>(found.tenants[i]) / 1e6;
      const double error = std::abs(joules - place.truth[i]);
      wrong += error;
      all += place.truth[i];
      tenants += 1;
      if (error <= 2 * found.tenant_errors[i]) covered += 1;
      worst.back() = std::max(worst.back(), error / place.truth[i]);
    }
  }
  std::ranges::sort(worst);
  return {wrong / all, worst[worst.size() / 2], covered / tenants};
}

}  // namespace partita::energy
