// Strassen-Winograd on lanes: the product is right whatever ran beside what.
#include <gtest/gtest.h>

#include "base/test_rounds.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "lanes/examples/strassen.h"
#include "lanes/graph_run.h"
#include "planners/mask/masks.h"

namespace partita {
namespace {

TEST(StrassenOnLanes, GivesTheProduct) {
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(1, 3);
  const auto driver = drivers::cpu_mask::CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  for (int round = 0; round < test_rounds(40); ++round) {
    const int size = 60 + 31 * (round % 5);
    const int units = 1 + round % 3, limit = round % 2 == 0 ? 0 : 3;
    const examples::Matrix a = examples::random_matrix(size, size, 1);
    const examples::Matrix b = examples::random_matrix(size, size, 2);
    examples::Matrix c(size, size);
    const auto example = examples::strassen_winograd(a, b, c, {1 + round % 2, units});
    const auto mask = [&](int, const std::vector<int>& running) {
      const auto grant =
          planners::mask::allocate(topology, running, {.units = units, .overlap_limit = limit});
      return grant.granted > 0 ? std::optional(grant.mask) : std::nullopt;
    };
    const auto run =
        exec::run_graph(example.graph, **driver, clock, {.cpu_threads = 2, .mask = mask});
    ASSERT_TRUE(run) << to_string(run.error());
    ASSERT_LE(examples::relative_error(a, b, c), 1e-5);
  }
  EXPECT_EQ((*driver)->outside(), 0);
}

}  // namespace
}  // namespace partita
