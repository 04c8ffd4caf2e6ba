#include "heat/rom.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heat/steady.h"
#include "heat/testing/dense_network_fixture.h"
#include "heat/testing/test_chips.h"
#include "heat/transient.h"

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
  Integrator integrator(network, Seconds{interval}, {11, 6});
  integrator.start(std::vector<double>(network.nodes(), start));
  double worst = 0;
  for (int sample = 0; sample < 3; ++sample) {
    const std::vector<double> watts = watts_at(network.block_names().size(), sample);
    model->step(watts);
    integrator.step(watts);
    worst = std::max(worst, worst_difference(model->block_temperatures(),
                                             block_temperatures(network, integrator.solution())));
  }
  return worst;
}

// All nodes after some samples, by the eigenvectors of the whole network.
class Exact {
 public:
  Exact(const Network& network, double interval) : network_(network), interval_(interval) {
    const std::vector<double> capacity = node_capacities(network);
    root_ = Eigen::Map<const Eigen::VectorXd>(capacity.data(),
                                              static_cast<Eigen::Index>(capacity.size()))
                .cwiseSqrt();
    const auto inverse = root_.cwiseInverse().asDiagonal();
    modes_.compute(inverse * dense_network(network) * inverse);
    state_ = Eigen::VectorXd::Zero(root_.size());
  }
  void start(const std::vector<double>& kelvin) {
    const Eigen::VectorXd nodes =
        Eigen::Map<const Eigen::VectorXd>(kelvin.data(), static_cast<Eigen::Index>(kelvin.size()));
    state_ = modes_.eigenvectors().transpose() *
             ((nodes.array() - network_.ambient()).matrix().cwiseProduct(root_));
  }
  void step(const std::vector<double>& watts) {
    const std::vector<double> heat = node_watts(network_, watts);
    const Eigen::VectorXd driven =
        modes_.eigenvectors().transpose() *
        Eigen::Map<const Eigen::VectorXd>(heat.data(), root_.size()).cwiseQuotient(root_);
    for (Eigen::Index i = 0; i < state_.size(); ++i) {
      const double rate = modes_.eigenvalues()(i), end = driven(i) / rate;
      state_(i) = end + (state_(i) - end) * std::exp(-rate * interval_);
    }
  }
  Solution solution() const {
    const Eigen::VectorXd rise = (modes_.eigenvectors() * state_).cwiseQuotient(root_);
    Solution all;
    for (const double value : rise) all.kelvin.push_back(value + network_.ambient());
    return all;
  }

 private:
  Network network_;
  double interval_;
  Eigen::VectorXd root_, state_;
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> modes_;
};

TEST(rom, agrees_with_the_eigenvectors_of_the_whole_network) {
  Chip chip = test_chip();
  chip.config.model_secondary = true;
  const Network network = network_of(chip, 4, 5);
  for (const double interval : {1e-4, 1e-2, 0.3}) {
    Exact exact(network, interval);
    Integrator integrator(network, Seconds{interval}, {12, 12});
    Result<ReducedModel> model = reduce(network, Seconds{interval}, {{}, 2e-7, {}, true});
    ASSERT_TRUE(model);
    exact.start(std::vector<double>(network.nodes(), 335));
    integrator.start(std::vector<double>(network.nodes(), 335));
    model->start_uniform(335);
    for (int sample = 0; sample < 5; ++sample) {
      const std::vector<double> watts = watts_at(network.block_names().size(), sample);
      exact.step(watts);
      integrator.step(watts);
      model->step(watts);
      const Solution truth = exact.solution();
      EXPECT_LT(worst_difference(integrator.solution().kelvin, truth.kelvin), 1e-4);
      EXPECT_LT(worst_difference(model->block_temperatures(), block_temperatures(network, truth)),
                2e-5);
      EXPECT_LT(worst_difference(model->map().values,
                                 layer_map(network, truth, power_layers(network)[0]).values),
                5e-3);
    }
  }
}

TEST(rom, a_start_of_ones_own_decays_as_the_network_says) {
  const Network network = network_of(test_chip(), 8, 6, true);
  std::vector<double> start = uniform_start(network, 340);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] += 5 * std::sin(static_cast<double>(i));
  Exact exact(network, 1e-3);
  exact.start(start);
  Result<ReducedModel> model = reduce(network, Seconds{1e-3}, {{}, 2e-6, start, false});
  ASSERT_TRUE(model);
  model->start_initial();
  EXPECT_LT(
      worst_difference(model->block_temperatures(), block_temperatures(network, exact.solution())),
      1e-5);
  for (int sample = 0; sample < 5; ++sample) {
    const std::vector<double> watts = watts_at(5, sample);
    exact.step(watts);
    model->step(watts);
    EXPECT_LT(worst_difference(model->block_temperatures(),
                               block_temperatures(network, exact.solution())),
              5e-4);
  }
}

TEST(rom, a_start_at_ambient_is_a_start) {
  const Network network = network_of(test_chip(), 4, 4);
  const std::vector<double> start(network.nodes(), network.ambient());
  Result<ReducedModel> model = reduce(network, Seconds{1e-3}, {{}, 0, start, false});
  ASSERT_TRUE(model);
  model->start_initial();
  for (const double kelvin : model->block_temperatures())
    EXPECT_NEAR(kelvin, network.ambient(), 1e-9);
}

TEST(rom, hotspot_starts_gaps_cold) {
  Chip chip = test_chip();
  Floorplan plan;  // 16 x 16 mm, a micrometre between two blocks; cells of 0.25 mm
  plan.width = plan.height = 0.016;
  plan.blocks = {{"left", 0.0081, 0.016, 0, 0}, {"right", 0.007899, 0.016, 0.008101, 0}};
  chip = one_die(chip.config, plan);
  const Network plain = network_of(chip, 64, 64), hotspot = network_of(chip, 64, 64, true);
  const std::vector<double> even = uniform_start(plain, 333.15);
  EXPECT_EQ(*std::ranges::min_element(even), 333.15);
  const std::vector<double> cold = uniform_start(hotspot, 333.15);
  EXPECT_NEAR(*std::ranges::min_element(cold), 333.15 * (1 - 1e-6 / 0.00025), 1e-6);  // 1.33 K
  // In every layer: 64 cells of each of the four.
  EXPECT_EQ(std::ranges::count_if(cold, [](double kelvin) { return kelvin < 333; }), 4 * 64);
}

TEST(rom, follows_the_integration_of_all_nodes) {
  const Network network = network_of(test_chip(), 16, 24);
  EXPECT_LT(worst_transient(network, 1e-2, 330), 2e-4);
  EXPECT_LT(worst_transient(network_of(test_stack(), 12, 12), 1e-3, 318.15), 2e-4);
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
  for (int i = 0; i < 100'000; ++i) model->step(watts);
  EXPECT_LT(worst_difference(model->block_temperatures(), steady), 1e-6);
}

}  // namespace
}  // namespace partita::thermal
