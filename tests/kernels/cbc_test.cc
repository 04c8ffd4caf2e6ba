// The joint plan of kernels against an integer program of the same problem, solved by CBC: another
// formulation (one variable per kernel and option, products with the slowdown linearised) and
// another solver.
#include <gtest/gtest.h>

#ifdef PARTITA_HAVE_CBC
#include <coin/Cbc_C_Interface.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "planners/mask/joint_plan.h"

namespace partita {
namespace {

using plan::KernelProblem;

// Rows and columns as they come, handed to CBC by columns.
struct Program {
  struct Column {
    double cost = 0, most = 1;
    bool whole = false;
    std::map<int, double> rows;
  };
  std::vector<Column> columns;
  std::vector<double> lower, upper;

  int column(double cost, double most, bool whole) {
    columns.push_back({cost, most, whole, {}});
    return static_cast<int>(columns.size()) - 1;
  }
  int row(double least, double most) {
    lower.push_back(least);
    upper.push_back(most);
    return static_cast<int>(lower.size()) - 1;
  }
  void add(int row, int column, double value) {
    columns[static_cast<std::size_t>(column)].rows[row] += value;
  }
};

std::optional<double> solve(const Program& program) {
  std::vector<int> start, index;
  std::vector<double> value, least, most, cost;
  for (const Program::Column& column : program.columns) {
    start.push_back(static_cast<int>(index.size()));
    least.push_back(0);
    most.push_back(column.most);
    cost.push_back(column.cost);
    for (const auto& [row, v] : column.rows) {
      index.push_back(row);
      value.push_back(v);
    }
  }
  start.push_back(static_cast<int>(index.size()));
  Cbc_Model* model = Cbc_newModel();
  Cbc_loadProblem(model, static_cast<int>(cost.size()), static_cast<int>(program.lower.size()),
                  start.data(), index.data(), value.data(), least.data(), most.data(), cost.data(),
                  program.lower.data(), program.upper.data());
  for (std::size_t c = 0; c < cost.size(); ++c)
    if (program.columns[c].whole) Cbc_setInteger(model, static_cast<int>(c));
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "sec", "5");
  Cbc_setParameter(model, "ratioGap", "0");
  Cbc_setParameter(model, "allowableGap", "1e-9");
  Cbc_solve(model);
  std::optional<double> result;
  if (Cbc_isProvenOptimal(model)) result = Cbc_getObjValue(model);
  Cbc_deleteModel(model);
  return result;
}

constexpr double kFar = std::numeric_limits<double>::max();  // infinity to CBC

// x[w][k][o]: kernel k of worker w has option o.
using Choices = std::vector<std::vector<std::vector<int>>>;

void choose_and_switch(Program& program, const KernelProblem& problem, Choices& x) {
  for (const plan::KernelWorker& worker : problem.workers) {
    const std::size_t options = worker.times.units.size();
    const int budget = program.row(0, problem.switches);
    auto& mine = x.emplace_back();
    for (int k = 0; k < worker.times.kernels(); ++k) {
      const int one = program.row(1, 1);
      auto& kernel = mine.emplace_back();
      for (std::size_t o = 0; o < options; ++o) {
        kernel.push_back(
            program.column(worker.times.time[static_cast<std::size_t>(k) * options + o], 1, true));
        program.add(one, kernel.back(), 1);
        if (k == 0) continue;
        const int entered = program.column(problem.switch_cost, 1, false);
        const int row = program.row(0, kFar);  // entered >= x now - x before
        program.add(row, entered, 1);
        program.add(row, kernel.back(), -1);
        program.add(row, mine[mine.size() - 2][o], 1);
        program.add(budget, entered, 1);
      }
    }
  }
}

// Adds sign x the slowdown of worker w, its mean over the others' units, to a row.
void add_slowdown(Program& program, const KernelProblem& problem, const Choices& x,
                  std::pair<std::size_t, int> worker_and_row, double sign) {
  const auto [w, row] = worker_and_row;
  for (std::size_t v = 0; v < problem.workers.size(); ++v) {
    if (v == w && problem.overlap == plan::Overlap::others) continue;
    const std::vector<int>& units = problem.workers[v].times.units;
    for (const std::vector<int>& kernel : x[v])
      for (std::size_t o = 0; o < units.size(); ++o)
        program.add(row, kernel[o],
                    sign * units[o] / (problem.total_units * static_cast<double>(x[v].size())));
  }
}

// y[k][o] = x[k][o] x slowdown: at least its least value where chosen, and summing to it.
void slow_down(Program& program, const KernelProblem& problem, const Choices& x) {
  for (std::size_t w = 0; w < problem.workers.size(); ++w) {
    const plan::KernelTimes& times = problem.workers[w].times;
    const double most = static_cast<double>(problem.workers.size());
    for (std::size_t k = 0; k < x[w].size(); ++k) {
      const int sum = program.row(0, 0);
      add_slowdown(program, problem, x, {w, sum}, -1);
      for (std::size_t o = 0; o < times.units.size(); ++o) {
        const int y = program.column(times.time[k * times.units.size() + o], most, false);
        program.add(sum, y, 1);
        const int only = program.row(-kFar, 0);  // y <= most x
        program.add(only, y, 1);
        program.add(only, x[w][k][o], -most);
      }
    }
  }
}

KernelProblem random_problem(Rng& rng) {
  KernelProblem problem;
  problem.switches = static_cast<int>(rng.below(4));
  problem.overlap = rng.below(2) == 0 ? plan::Overlap::others : plan::Overlap::literal;
  for (const char* name : {"a", "b"}) {
    plan::KernelTimes times{{15, 30, 60}, {}};
    const int kernels = 3 + static_cast<int>(rng.below(6));
    for (int k = 0; k < kernels; ++k) {
      const double work = 1 + 100 * rng.uniform(), knee = 60 * rng.uniform();
      for (const int n : times.units) times.time.push_back(work * std::max(1.0, knee / n));
    }
    problem.workers.push_back({name, std::move(times)});
  }
  return problem;
}

TEST(KernelPlans, EqualCbc) {
  Rng rng(11);
  int compared = 0;
  const int rounds = test_rounds(12);
  for (int round = 0; round < rounds; ++round) {
    const KernelProblem problem = random_problem(rng);
    Program program;
    Choices x;
    choose_and_switch(program, problem, x);
    slow_down(program, problem, x);
    const std::optional<double> cbc = solve(program);
    if (!cbc) continue;
    ++compared;
    const plan::KernelPlan plan = planners::mask::plan_jointly(problem).plan;
    EXPECT_NEAR(plan.objective, *cbc, 1e-6 * *cbc) << round;
  }
  EXPECT_GE(compared, rounds * 3 / 4);
}

}  // namespace
}  // namespace partita
#endif
