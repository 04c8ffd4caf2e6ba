#include "lanes/examples/strassen.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "lanes/graph_run.h"

namespace partita::examples {
namespace {

TEST(Strassen, HasSevenProductsAndFifteenAdditionsPerLevel) {
  const Matrix a(64, 64), b(64, 64);
  Matrix c(64, 64);
  const int products[] = {1, 7, 49, 343}, additions[] = {0, 15, 15 + 7 * 15, 15 + 7 * 15 + 49 * 15};
  for (int levels = 0; levels <= 3; ++levels) {
    const StrassenWinograd one = strassen_winograd(a, b, c, {.levels = levels});
    EXPECT_EQ(one.products, products[levels]);
    EXPECT_EQ(one.additions, additions[levels]);
    EXPECT_EQ(one.copies, levels == 0 ? 3 : 12);
    EXPECT_EQ(one.costs.size(), one.graph.tasks().size());
  }
}

// The product by its definition.
TEST(Strassen, MultipliesMatricesOfAllShapes) {
  const int shapes[][3] = {{1, 1, 1},    {1, 5, 3},    {2, 2, 2},      {3, 3, 3},   {7, 4, 9},
                           {16, 16, 16}, {33, 17, 65}, {130, 129, 67}, {64, 200, 1}};
  RealClock clock;
  for (const auto& [rows, inner, columns] : shapes) {
    for (int levels = 0; levels <= kMaxLevels; ++levels) {
      const Matrix a = random_matrix(rows, inner, 1), b = random_matrix(inner, columns, 2);
      Matrix c(rows, columns);
      const StrassenWinograd one = strassen_winograd(a, b, c, {.levels = levels});
      ASSERT_TRUE(exec::run_sequentially(one.graph, clock));
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          double sum = 0;
          for (int k = 0; k < inner; ++k)
            sum += double{a.values[static_cast<std::size_t>(i * inner + k)]} *
                   double{b.values[static_cast<std::size_t>(k * columns + j)]};
          ASSERT_NEAR(c.values[static_cast<std::size_t>(i * columns + j)], sum, 1e-3)
              << rows << "x" << inner << "x" << columns << " levels " << levels;
        }
      }
      ASSERT_LE(relative_error(a, b, c), 1e-4);
    }
  }
}

TEST(Strassen, ErrorsAreSeen) {
  const Matrix a = random_matrix(20, 20, 1), b = random_matrix(20, 20, 2);
  Matrix c(20, 20);
  RealClock clock;
  ASSERT_TRUE(exec::run_sequentially(strassen_winograd(a, b, c, {}).graph, clock));
  EXPECT_LT(relative_error(a, b, c), 1e-5);
  c.values[57] += 0.01F;
  EXPECT_GT(relative_error(a, b, c), 1e-4);
}

}  // namespace
}  // namespace partita::examples
