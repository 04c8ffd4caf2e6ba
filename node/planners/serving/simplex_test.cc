#include "planners/serving/simplex.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"

namespace partita::planners::serving {
namespace {

struct Program {
  std::vector<double> rhs, costs;
  std::vector<std::vector<double>> columns;
};

// min c.x, A x <= b with A, b >= 0 and mixed costs: slacks are a feasible start.
Program random_program(Rng& rng, std::size_t rows, std::size_t columns) {
  Program program;
  for (std::size_t r = 0; r < rows; ++r) {
    program.rhs.push_back(1 + 9 * rng.uniform());
    program.costs.push_back(0);
    program.columns.emplace_back(rows, 0.0);
    program.columns.back()[r] = 1;
  }
  for (std::size_t c = 0; c < columns; ++c) {
    program.costs.push_back(-rng.uniform());
    program.columns.emplace_back();
    for (std::size_t r = 0; r < rows; ++r)
      program.columns.back().push_back(rng.below(3) ? 0.1 + rng.uniform() : 0);
    program.columns.back()[rng.below(rows)] = 1;
  }
  return program;
}

// Optimality by duality: primal feasible, dual feasible, equal values.
TEST(Simplex, EndsWithAnOptimalityCertificate) {
  Rng rng(7);
  for (int round = 0; round < 50; ++round) {
    const std::size_t rows = 2 + rng.below(12);
    const Program program = random_program(rng, rows, 30);
    Simplex simplex(program.rhs);
    for (std::size_t c = 0; c < program.costs.size(); ++c)
      simplex.add(program.costs[c], program.columns[c]);
    std::vector<std::size_t> basis(rows);
    std::iota(basis.begin(), basis.end(), 0);
    simplex.start(basis);
    simplex.optimise();
    double primal = 0, dual = 0;
    std::vector<double> left = program.rhs;
    for (std::size_t c = 0; c < program.costs.size(); ++c) {
      const double x = simplex.value(c);
      EXPECT_GE(x, 0);
      primal += program.costs[c] * x;
      double reduced = program.costs[c];
      for (std::size_t r = 0; r < rows; ++r) {
        left[r] -= program.columns[c][r] * x;
        reduced -= simplex.duals()[r] * program.columns[c][r];
      }
      EXPECT_GE(reduced, -1e-8);
    }
    for (std::size_t r = 0; r < rows; ++r) {
      EXPECT_NEAR(left[r], 0, 1e-8);
      dual += simplex.duals()[r] * program.rhs[r];
    }
    EXPECT_NEAR(primal, dual, 1e-7);
    EXPECT_NEAR(simplex.objective(), primal, 1e-9);
  }
}

TEST(Simplex, SurvivesDegeneratePivots) {
  // Beale's cycling example: optimum -0.05.
  Simplex simplex({0, 0, 1});
  simplex.add(0, {1, 0, 0});
  simplex.add(0, {0, 1, 0});
  simplex.add(0, {0, 0, 1});
  simplex.add(-0.75, {0.25, 0.5, 0});
  simplex.add(150, {-60, -90, 0});
  simplex.add(-0.02, {-0.04, -0.02, 1});
  simplex.add(6, {9, 3, 0});
  simplex.start({0, 1, 2});
  simplex.optimise();
  EXPECT_NEAR(simplex.objective(), -0.05, 1e-9);
}

}  // namespace
}  // namespace partita::planners::serving
