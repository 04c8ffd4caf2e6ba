#include "model/thermal/rom.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/thermal/steady.h"
#include "model/thermal/test_chips.h"
#include "model/thermal/transient.h"

namespace partita::thermal {
namespace {

Network network_of(const Chip& chip, int rows, int cols, bool hotspot = false) {
  const Result<Network> network = make_network(chip, {rows, cols, hotspot});
  EXPECT_TRUE(network);
  return *network;
}

// Powers that change all the time, of blocks apart from each other.
std::vector<double> watts_at(std::size_t blocks, int sample) {
  std::vector<double> watts(blocks);
  for (std::size_t i = 0; i < blocks; ++i)
    watts[i] = ((sample * 7 + static_cast<int>(i) * 3) % 5) * 2.5;
  return watts;
}

double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// The worst difference between reduced model and integration over some samples.
double worst_transient(const Network& network, double interval, double start) {
  Result<ReducedModel> model = reduce(network, Seconds{interval});
  EXPECT_TRUE(model);
  model->start_uniform(start);
  Integrator integrator(network, Seconds{interval}, {12, 10});
  integrator.start(std::vector<double>(network.nodes(), start));
  double worst = 0;
  for (int sample = 0; sample < 6; ++sample) {
    const std::vector<double> watts = watts_at(network.block_names().size(), sample);
    model->step(watts);
    integrator.step(watts);
    worst = std::max(worst, worst_difference(model->block_temperatures(),
                                             block_temperatures(network, integrator.solution())));
  }
  return worst;
}

TEST(rom, follows_the_integration_of_all_nodes) {
  const Network network = network_of(test_chip(), 16, 24);
  EXPECT_LT(worst_transient(network, 1e-5, 330), 1e-4);
  EXPECT_LT(worst_transient(network, 1e-3, 330), 1e-4);
  EXPECT_LT(worst_transient(network, 1e-2, 330), 1e-4);
  EXPECT_LT(worst_transient(network, 1.0, 330), 1e-4);
  EXPECT_LT(worst_transient(network_of(test_stack(), 12, 12), 1e-2, 318.15), 1e-4);
  Chip secondary = test_chip();
  secondary.config.model_secondary = true;
  EXPECT_LT(worst_transient(network_of(secondary, 12, 16), 1e-2, 325), 1e-4);
}

TEST(rom, settles_where_the_steady_solver_does) {
  const Network network = network_of(test_chip(), 20, 30);
  Result<ReducedModel> model = reduce(network, Seconds{0.01});
  ASSERT_TRUE(model);
  const std::vector<double> watts = watts_at(network.block_names().size(), 3);
  const std::vector<double> steady =
      block_temperatures(network, steady_state(network, watts).solution);
  model->settle(watts);
  EXPECT_LT(worst_difference(model->block_temperatures(), steady), 1e-6);
  std::vector<double> superposed(steady.size(), network.ambient());
  for (std::size_t i = 0; i < steady.size(); ++i)
    for (std::size_t j = 0; j < watts.size(); ++j)
      superposed[i] += model->steady_response()[i][j] * watts[j];
  EXPECT_LT(worst_difference(superposed, steady), 1e-6);
  model->start_uniform(300);
  for (int i = 0; i < 200'000; ++i) model->step(watts);
  EXPECT_LT(worst_difference(model->block_temperatures(), steady), 1e-6);
}

}  // namespace
}  // namespace partita::thermal
