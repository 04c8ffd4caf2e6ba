// The experiments of docs/results/energy.md, printed: coefficients of synthetic suites with and
// without outliers, leave-one-kernel-out errors on AccelWattch's tables, and energy of co-located
// tenants charged to the wrong one. `energy_bench [trials]` (300); CPU time is said at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "model/energy/testing/experiments.h"

namespace partita::energy {
namespace {

void synthetic(int seeds) {
  fmt::print(
      "Synthetic suites, 5 % noise, {} seeds each: error of the worst coefficient, median "
      "and 90th percentile over seeds\n",
      seeds);
  const std::pair<const char*, numeric::RobustOptions> methods[] = {
      {"least squares, absolute", {numeric::Loss::squares, false, {}}},
      {"huber, absolute", {numeric::Loss::huber, false, {}}},
      {"least squares, relative", {numeric::Loss::squares, true, {}}},
      {"huber, relative", {numeric::Loss::huber, true, {}}},
      {"bisquare, relative", {numeric::Loss::bisquare, true, {}}},
      {"bisquare, other's table", {numeric::Loss::bisquare, true, {}}}};
  for (const double outliers : {0.0, 0.2})
    for (const int rows : {30, 40, 50})
      for (const auto& [name, options] : methods) {
        std::vector<double> worst;
        for (int seed = 0; seed < seeds; ++seed) {
          const MicroSuite suite =
              micro_suite(static_cast<std::uint64_t>(seed), rows, 0.05, outliers);
          numeric::RobustOptions own = options;
          if (&name == &std::rbegin(methods)->first)
            own.beliefs = other_table(static_cast<std::uint64_t>(seed));
          worst.push_back(
              worst_error(numeric::robust_fit(suite.accesses, suite.joules, own).coefficients));
        }
        std::ranges::sort(worst);
        fmt::print("  {:2.0f} % outliers, {} rows, {:24} {:6.1f} % {:7.1f} %\n", 100 * outliers,
                   rows, name, 100 * worst[worst.size() / 2], 100 * worst[worst.size() * 9 / 10]);
      }
}

void accelwattch_tables() {
  fmt::print("\nAccelWattch, leave one kernel out: mean absolute error (worst), r2\n");
  for (const char* name : {"volta-sass", "volta-hybrid", "volta-hw", "volta-ptx", "pascal-sass",
                           "pascal-ptx", "turing-sass", "turing-ptx"}) {
    const CounterTable table = accelwattch(std::string(name) + ".csv");
    fmt::print("  {:13}", name);
    for (const auto& [loss, deviation] : {std::pair{numeric::Loss::huber, 1.0},
                                          {numeric::Loss::huber, 2.0},
                                          {numeric::Loss::huber, 3.0},
                                          {numeric::Loss::bisquare, 2.0}}) {
      FitOptions options = accelwattch_options(loss);
      options.deviation = deviation;
      const auto validation = leave_one_out(table, options, 0);
      if (!validation) continue;
      fmt::print("  {} +-{:.0f}: {:5.2f} % ({:4.1f} %) {:.2f}",
                 loss == numeric::Loss::huber ? "huber" : "bisquare", deviation,
                 100 * validation->mape, 100 * validation->worst, validation->r2);
    }
    fmt::print("\n");
  }
}

void tenants(int trials) {
  fmt::print(
      "\nCo-located tenants, {} trials: energy charged wrongly, worst tenant (median), "
      "within two standard deviations\n",
      trials);
  for (const char* name : {"volta-sass", "volta-hybrid", "volta-hw"})
    for (const BoardIdle idle : {BoardIdle::constant, BoardIdle::constant_and_static}) {
      const CounterTable kernels = accelwattch(std::string(name) + ".csv");
      fmt::print("  {}, {} kernels, idle is {}\n", name, kernels.rows.size(),
                 idle == BoardIdle::constant ? "constant power" : "constant and static power");
      for (const SplitRule rule : {SplitRule::kepler, SplitRule::equal, SplitRule::slice,
                                   SplitRule::activity, SplitRule::model}) {
        const Misattribution found = misattribution(kernels, rule, idle, trials);
        fmt::print("    {:9} {:5.1f} % {:6.0f} % {:5.0f} %\n", to_string(rule), 100 * found.share,
                   100 * found.worst, 100 * found.covered);
      }
    }
}

}  // namespace
}  // namespace partita::energy

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::max(1, std::atoi(argv[1])) : 300;
  partita::energy::synthetic(trials);
  partita::energy::accelwattch_tables();
  partita::energy::tenants(trials);
  fmt::print("\nCPU time {:.1f} s\n", static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
}
