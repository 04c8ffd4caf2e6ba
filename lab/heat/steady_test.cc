#include "heat/steady.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heat/testing/dense_network_fixture.h"
#include "heat/testing/test_chips.h"

namespace partita::thermal {
namespace {

double worst_against_dense(const Chip& chip, const NetworkOptions& options) {
  const Result<Network> network = make_network(chip, options);
  EXPECT_TRUE(network) << to_string(network.error());
  std::vector<double> watts(network->block_names().size());
  for (std::size_t i = 0; i < watts.size(); ++i) watts[i] = 1 + 3.0 * static_cast<double>(i % 4);
  const std::vector<double> heat = node_watts(*network, watts);
  const Eigen::VectorXd exact = dense_network(*network).ldlt().solve(
      Eigen::Map<const Eigen::VectorXd>(heat.data(), static_cast<Eigen::Index>(heat.size())));
  const SteadyState state = steady_state(*network, watts);
  double worst = 0;
  for (std::size_t i = 0; i < heat.size(); ++i)
    worst = std::max(worst, std::abs(state.solution.kelvin[i] - network->ambient() -
                                     exact(static_cast<Eigen::Index>(i))));
  EXPECT_NEAR(state.removed, state.power, 1e-10 * state.power);
  return worst;
}

TEST(steady, the_solver_agrees_with_a_dense_matrix) {
  EXPECT_LT(worst_against_dense(test_chip(), {8, 8, false}), 1e-9);
  EXPECT_LT(worst_against_dense(test_chip(), {7, 10, true}), 1e-9);
  EXPECT_LT(worst_against_dense(test_chip(), {1, 1, false}), 1e-9);
  Chip secondary = test_chip();
  secondary.config.model_secondary = true;
  EXPECT_LT(worst_against_dense(secondary, {9, 6, false}), 1e-9);
  EXPECT_LT(worst_against_dense(test_stack(), {6, 9, false}), 1e-9);
  Chip detailed = test_stack();
  detailed.config.detailed_3d = true;
  EXPECT_LT(worst_against_dense(detailed, {6, 9, true}), 1e-9);
}

// A die that fills spreader and sink, heated evenly: one column of resistances.
Chip slab() {
  Chip chip = test_chip();
  Floorplan& plan = chip.layers[0].plan;
  plan = {{{"all", 0.02, 0.02, 0, 0}}, 0.02, 0.02};
  chip.layers[1].plan = plan;
  chip.config.s_spreader = chip.config.s_sink = 0.02;
  return chip;
}

double slab_kelvin(const Chip& chip, bool hotspot) {
  const Result<Network> network = make_network(chip, {12, 9, hotspot});
  EXPECT_TRUE(network) << to_string(network.error());
  const std::vector<double> watts(network->block_names().size(), 30);
  return block_temperatures(*network, steady_state(*network, watts).solution).front();
}

TEST(steady, a_slab_is_a_sum_of_resistances) {
  const Chip chip = slab();
  const PackageConfig& c = chip.config;
  const double area = 0.02 * 0.02;
  const double through = c.t_chip / c.k_chip + c.t_interface / c.k_interface +
                         c.t_spreader / c.k_spreader + c.t_sink / c.k_sink;
  EXPECT_NEAR(slab_kelvin(chip, false), c.ambient + 30 * (through / area + c.r_convec), 1e-9);
  EXPECT_NEAR(slab_kelvin(chip, true), c.ambient + 30 * (through / area + c.r_convec), 1e-9);
}

TEST(steady, hotspot_counts_half_of_the_convection_twice_with_detailed_3d) {
  Chip chip = slab();
  chip.stack = true;
  chip.config.detailed_3d = true;
  const PackageConfig& c = chip.config;
  const double area = 0.02 * 0.02;
  const double die = c.t_chip / c.k_chip / area, paste = c.t_interface / c.k_interface / area;
  const double spreader = c.t_spreader / c.k_spreader / area, sink = c.t_sink / c.k_sink / area;
  // From the middle of the die.
  EXPECT_NEAR(slab_kelvin(chip, false),
              c.ambient + 30 * (die / 2 + paste + spreader + sink + c.r_convec), 1e-9);
  EXPECT_NEAR(slab_kelvin(chip, true),
              c.ambient + 30 * (die + paste + spreader + 1.5 * sink + 1.5 * c.r_convec), 1e-9);
}

// A die twice as wide as high.
Chip rectangle() {
  Chip chip = test_chip();
  Floorplan plan;
  plan.width = 0.016;
  plan.height = 0.008;
  plan.blocks = {{"half", 0.008, 0.008, 0, 0},
                 {"hot", 0.004, 0.004, 0.008, 0},
                 {"corner", 0.004, 0.004, 0.012, 0},
                 {"rest", 0.008, 0.004, 0.008, 0.004}};
  return one_die(chip.config, plan);
}

std::vector<double> rectangle_kelvin(NetworkOptions options) {
  const Result<Network> network = make_network(rectangle(), options);
  return block_temperatures(*network,
                            steady_state(*network, std::vector<double>{8, 14, 2, 6}).solution);
}

double worst_apart(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(steady, temperatures_do_not_depend_on_the_shape_of_cells) {
  EXPECT_LT(worst_apart(rectangle_kelvin({64, 64, false}), rectangle_kelvin({32, 64, false})),
            0.02);
  EXPECT_LT(worst_apart(rectangle_kelvin({128, 128, false}), rectangle_kelvin({64, 128, false})),
            0.02);
}

TEST(steady, hotspot_swaps_the_axes_of_cells_that_are_not_square) {
  EXPECT_LT(worst_apart(rectangle_kelvin({64, 128, true}), rectangle_kelvin({64, 128, false})),
            1e-9);
  EXPECT_GT(worst_apart(rectangle_kelvin({64, 64, true}), rectangle_kelvin({64, 64, false})), 0.5);
  // It conducts east as if the cells lay the other way: as this die does with its sides swapped.
  const Result<Network> swapped = make_network(rectangle(), {64, 64, true});
  const Result<Network> plain = make_network(rectangle(), {64, 64, false});
  EXPECT_EQ(swapped->parts().layers[0].east, plain->parts().layers[0].south);
  EXPECT_EQ(swapped->parts().layers[2].ties.west_east, plain->parts().layers[2].ties.west_east);
}

TEST(steady, any_number_of_cells_and_every_watt_arrives) {
  for (const auto& [rows, cols] : {std::pair{234, 252}, std::pair{37, 101}, std::pair{1, 64}}) {
    const Result<Network> network = make_network(rectangle(), {rows, cols, false});
    ASSERT_TRUE(network);
    const SteadyState state = steady_state(*network, std::vector<double>{20, 1, 0, 13});
    EXPECT_NEAR(state.removed / 34, 1, 1e-11);
  }
}

}  // namespace
}  // namespace partita::thermal
