#include "heat/forecast.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace partita::thermal {
namespace {

struct Truth {
  double ambient = 24;
  double resistance[3] = {0.05, 0.06, 0.09}, time[3] = {2, 25, 240};
};

// A board that was told its power in steps, seen once a second through a whole-degree sensor or
// without rounding.
std::vector<HeatPoint> history(const Truth& truth, int seconds, bool rounded) {
  std::vector<HeatPoint> points;
  double rise[3];
  for (int i = 0; i < 3; ++i) rise[i] = truth.resistance[i] * 60;
  for (int t = 0; t < seconds; ++t) {
    const double watts = 60 + 60.0 * ((t / 97 * 7) % 5);
    double sum = truth.ambient;
    for (int i = 0; i < 3; ++i) {
      const double end = truth.resistance[i] * watts;
      if (t > 0) rise[i] = end + (rise[i] - end) * std::exp(-1 / truth.time[i]);
      sum += rise[i];
    }
    points.push_back({Seconds{1e9 + t}, Watts{watts}, Celsius{rounded ? std::round(sum) : sum}});
  }
  return points;
}

TEST(forecast, finds_the_board_that_made_the_log) {
  const Truth truth;
  const Result<GpuThermalModel> model = fit_thermal(history(truth, 1500, false), std::nullopt);
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_NEAR(model->ambient.value, 24, 0.5);
  EXPECT_NEAR(model->resistance(), 0.2, 0.004);
  EXPECT_LT(model->rms_k, 0.1);
  EXPECT_LT(model->held_out_rms_k, 0.3);
  EXPECT_NEAR(sustainable(*model, Celsius{83}).value, (83 - 24) / 0.2, 6);
}

TEST(forecast, whole_degrees_are_enough) {
  const Result<GpuThermalModel> model = fit_thermal(history({}, 1500, true), std::nullopt);
  ASSERT_TRUE(model);
  EXPECT_NEAR(sustainable(*model, Celsius{83}).value, 295, 15);
  EXPECT_LT(model->held_out_rms_k, 1);
}

TEST(forecast, the_time_to_a_limit_is_that_of_the_truth) {
  const Truth truth;
  const std::vector<HeatPoint> log = history(truth, 1400, false);
  const Result<GpuThermalModel> model = fit_thermal(log, std::nullopt);
  ASSERT_TRUE(model);
  const std::optional<Seconds> reached = time_to_reach(*model, Watts{400}, Celsius{83});
  ASSERT_TRUE(reached);
  // The same board goes on at 400 W.
  double rise[3] = {truth.resistance[0] * 60, truth.resistance[1] * 60, truth.resistance[2] * 60};
  double seconds = 0;
  for (int t = 1; t < 1400 + 4000; ++t) {
    const double watts = t < 1400 ? 60 + 60.0 * ((t / 97 * 7) % 5) : 400;
    double sum = truth.ambient;
    for (int i = 0; i < 3; ++i) {
      const double end = truth.resistance[i] * watts;
      rise[i] = end + (rise[i] - end) * std::exp(-1 / truth.time[i]);
      sum += rise[i];
    }
    if (t >= 1400 && sum >= 83) {
      seconds = t - 1399;
      break;
    }
  }
  ASSERT_GT(seconds, 0);
  EXPECT_NEAR(reached->value, seconds, 0.1 * seconds + 2);
  EXPECT_FALSE(time_to_reach(*model, Watts{100}, Celsius{83}));
  EXPECT_NEAR(temperature_after(*model, Watts{100}, Seconds{1e6}).value,
              settled_temperature(*model, Watts{100}).value, 1e-9);
}

TEST(forecast, what_a_log_cannot_tell_is_refused) {
  std::vector<HeatPoint> flat;
  for (int t = 0; t < 100; ++t) flat.push_back({Seconds{1.0 * t}, Watts{200}, Celsius{60}});
  EXPECT_FALSE(fit_thermal(flat, std::nullopt));
  const Result<GpuThermalModel> told = fit_thermal(flat, Celsius{20});
  ASSERT_TRUE(told);
  EXPECT_NEAR(told->resistance(), 0.2, 1e-3);
  flat.resize(5);
  EXPECT_FALSE(fit_thermal(flat, Celsius{20}));
}

}  // namespace
}  // namespace partita::thermal
