#include "model/capacity_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace partita::model {
namespace {

BatchQueue queue(int max_batch, int processes, double growth) {
  BatchQueue result{{}, processes};
  for (int b = 1; b <= max_batch; b *= 2)
    result.curve.steps.push_back({b, Millis{2 + 3 * std::pow(b, growth)}});
  return result;
}

// The table stays close under the searched capacity, for objectives from too tight to loose.
TEST(CapacityTable, StaysCloseToTheSearchedCapacity) {
  for (const int processes : {1, 3}) {
    for (const int max_batch : {1, 8, 32}) {
      const BatchQueue q = queue(max_batch, processes, 0.8);
      CapacityTable table(q, 99);
      const double longest = q.curve.steps.back().latency.value;
      for (const double factor : {0.05, 1.02, 1.5, 2.2, 3.0, 5.0, 10.0}) {
        const Millis slo{factor * longest};
        const double searched = planning_capacity(q, slo, 99).value;
        const double found = table.at(slo).value;
        EXPECT_LE(found, 1.02 * searched + 1e-9) << processes << " " << max_batch << " " << factor;
        EXPECT_GE(found, 0.75 * searched - 0.01 * saturation(q).value)
            << processes << " " << max_batch << " " << factor;
      }
    }
  }
}

TEST(CapacityTable, MayExceedNeverHidesACapacity) {
  const BatchQueue q = queue(16, 2, 0.7);
  CapacityTable table(q, 99);
  for (const double factor : {0.5, 1.0, 1.4, 2.0, 4.0}) {
    const Millis slo{factor * q.curve.steps.back().latency.value};
    const Rps found = table.at(slo);
    for (const double part : {0.0, 0.3, 0.6, 0.9, 0.999})
      if (found.value > 0) {
        EXPECT_TRUE(table.may_exceed(part * found, slo)) << factor << " " << part;
      }
  }
  EXPECT_FALSE(table.may_exceed(saturation(q), Millis{1e9}));
  EXPECT_EQ(table.at(Millis{0.1}).value, 0);
}

}  // namespace
}  // namespace partita::model
