#include "heat/floorplan/recover.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "base/source_text.h"
#include "heat/floorplan/clean.h"
#include "heat/floorplan/deconvolve.h"
#include "heat/floorplan/score.h"
#include "heat/floorplan/session_forms.h"
#include "heat/floorplan/simulate.h"
#include "heat/floorplan/slab.h"

namespace partita::floorplan {
namespace {

// ---- geometry by hand

TEST(Score, OverlapsByHand) {
  const thermal::Block a{"a", 2e-3, 2e-3, 0, 0}, b{"b", 2e-3, 2e-3, 1e-3, 0};
  EXPECT_NEAR(intersection_over_union(a, b), 2.0 / 6, 1e-12);
  EXPECT_NEAR(centroid_distance(a, b), 1e-3, 1e-15);
  EXPECT_NEAR(edge_distance(a, b), 0.5e-3, 1e-15);
  const thermal::Block far{"c", 1e-3, 1e-3, 3e-3, 3e-3};
  EXPECT_EQ(intersection_over_union(a, far), 0);
  // The lower left quarter of a 4 x 4 picture is the lower rows.
  const raster::Grid mask = mask_of({a}, 4, 4, 1e-3);
  EXPECT_EQ(mask.at(3, 0) + mask.at(3, 1) + mask.at(2, 0) + mask.at(2, 1), 4);
  EXPECT_EQ(mask.at(1, 0) + mask.at(3, 2), 0);
  EXPECT_NEAR(cover_of({"d", 0.5e-3, 1e-3, 0.75e-3, 0}, 4, 4, 1e-3).at(3, 1), 0.25, 1e-12);
}

// ---- the forward physics against closed forms

TEST(Slab, AnEvenPlateIsASeriesOfResistances) {
  Slab slab;
  slab.cell_m = 1e-4;
  slab.layers = {{0.5e-3, 100, 0}, {0.5e-3, 100, 0}, {1e-3, 2, 0}};
  slab.heated = 1;
  slab.bottom_conductance = raster::Grid(8, 12, 3000);
  const raster::Grid rise = top_rise(slab, raster::Grid(8, 12, 1e-4));  // 1e4 W/m2
  const double below = 0.25e-3 / 100 + 0.5e-3 / 2 + 0.5e-3 / 2 + 1.0 / 3000;
  // The last layer's centre stands on the conductance.
  const double expected = 1e4 * (below - 0.5e-3 / 2);
  for (const double value : rise.values) EXPECT_NEAR(value, expected, 1e-5 * expected);
}

// A cosine of power under many thin layers tends to the slab's sinh and cosh.
TEST(Slab, ACosineOfPowerMeetsTheKernelOfRecovery) {
  const int rows = 8, cols = 40;
  Session session;
  session.pixel_m = 1e-4;
  session.blur_px = 0;
  session.captures.push_back({"x", {}, 1, raster::Grid(rows, cols)});
  SlabGuess guess;
  guess.conductivity = 120;
  guess.thickness_m = 0.6e-3;
  guess.bottom = 2000;
  guess.contact = 1e9;
  guess.sheet = 0;
  Slab slab;
  slab.cell_m = session.pixel_m;
  for (int i = 0; i < 24; ++i) slab.layers.push_back({0.6e-3 / 24, 120, 0});
  slab.heated = 23;
  slab.bottom_conductance = raster::Grid(rows, cols, 2000);
  raster::Grid watts(rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      watts.at(r, c) = 1e-3 * std::cos(std::numbers::pi * 3 * (c + 0.5) / cols);
  const raster::Grid rise = top_rise(slab, watts);
  const double expected =
      1e-3 * kernel(guess, session)[3] * std::cos(std::numbers::pi * 1.5 / cols);
  EXPECT_NEAR(rise.at(4, 0), expected, 0.03 * expected);
}

// ---- cleaning

TEST(Clean, TwoTemperaturesGiveBackWhatEtchingHides) {
  raster::Grid gain(4, 4, 1), truth(4, 4, 330);
  gain.at(1, 2) = 0.88;
  truth.at(1, 2) = 331;
  const auto seen = [&](const raster::Grid& kelvin) {
    raster::Grid reading = kelvin;
    for (std::size_t i = 0; i < reading.values.size(); ++i)
      reading.values[i] = 298 + gain.values[i] * (kelvin.values[i] - 298) + 0.01 * double(i % 3);
    return reading;
  };
  const auto calibration = calibrated(
      {{313, 10, seen(raster::Grid(4, 4, 313))}, {333, 10, seen(raster::Grid(4, 4, 333))}}, "x");
  ASSERT_TRUE(calibration);
  const raster::Grid clean = corrected(seen(truth), *calibration);
  for (std::size_t i = 0; i < clean.values.size(); ++i)
    EXPECT_NEAR(clean.values[i], truth.values[i], 1e-9);
  EXPECT_FALSE(calibrated({{313, 1, truth}, {313.2, 1, truth}}, "x"));
  EXPECT_FALSE(calibrated({{313, 1, truth}, {333, 1, truth}}, "x"));  // shows no difference
}

TEST(Clean, TheMedianFilterTakesAThinStrokeAndLeavesASlope) {
  raster::Grid picture(60, 60);
  for (int r = 0; r < 60; ++r)
    for (int c = 0; c < 60; ++c) picture.at(r, c) = 320 + 0.01 * c;
  for (int r = 10; r < 50; ++r) picture.at(r, 30) = picture.at(r, 31) = 316;
  const raster::Grid clean = median_filtered(picture, {});
  EXPECT_NEAR(clean.at(30, 30), 320.3, 0.15);
  EXPECT_EQ(clean.at(30, 5), picture.at(30, 5));
}

// ---- un-mixing and inversion against what was put in

TEST(Unmix, ComponentsThatDifferComeBackAndOthersAreRefused) {
  Session session;
  session.components = {{"A", {"a"}, true}, {"B", {"b"}, true}};
  raster::Grid idle(8, 8, 320), a(8, 8), b(8, 8);
  a.at(2, 2) = 0.5;
  b.at(5, 5) = 0.7;
  std::vector<raster::Grid> pictures;
  for (const auto& [wa, wb] : {std::pair{0.0, 0.0}, {1.0, 0.2}, {0.3, 2.0}, {1.0, 1.0}}) {
    raster::Grid sum = idle;
    for (std::size_t i = 0; i < sum.values.size(); ++i)
      sum.values[i] += wa * a.values[i] + wb * b.values[i];
    session.captures.push_back({"c", {wa, wb}, 1, sum});
    pictures.push_back(sum);
  }
  const auto parts = unmixed(session, pictures, "x");
  ASSERT_TRUE(parts);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    EXPECT_NEAR(parts->kelvin_per_watt[0].values[i], a.values[i], 1e-9);
    EXPECT_NEAR(parts->kelvin_per_watt[1].values[i], b.values[i], 1e-9);
  }
  for (Capture& capture : session.captures) capture.watts[1] = 2 * capture.watts[0];
  EXPECT_FALSE(unmixed(session, pictures, "x"));
}

TEST(Deconvolve, MoreNoiseMakesTheVariationWeighMore) {
  Session session;
  session.pixel_m = 1e-4;
  session.captures.push_back({"x", {}, 1, raster::Grid(48, 48)});
  SlabGuess slab;
  slab.thickness_m = 0.3e-3;
  raster::Grid power(48, 48);
  for (int r = 12; r < 30; ++r)
    for (int c = 10; c < 36; ++c) power.at(r, c) = 1.0 / (18 * 26);
  raster::Grid kelvin = power;
  const std::vector<double> factors = kernel(slab, session);
  const numeric::CosineTransform transform(48, 48);
  transform.forward(kelvin.values);
  for (std::size_t m = 0; m < factors.size(); ++m) kelvin.values[m] *= factors[m];
  transform.inverse(kelvin.values);
  const auto variation = [](const raster::Grid& grid) {
    double sum = 0;
    for (int r = 0; r + 1 < grid.rows; ++r)
      for (int c = 0; c + 1 < grid.cols; ++c)
        sum += std::hypot(grid.at(r + 1, c) - grid.at(r, c), grid.at(r, c + 1) - grid.at(r, c));
    return sum;
  };
  double last = 1e300;
  for (const double noise : {0.001, 0.05, 2.0}) {
    Rng random(7);
    raster::Grid seen = kelvin;
    for (double& value : seen.values) value += noise * (random.uniform() - 0.5) * std::sqrt(12.0);
    const raster::Grid found = smooth_power(seen, trust_of(slab, session, noise), {1, 120});
    for (const double value : found.values) EXPECT_GE(value, 0);
    EXPECT_LT(variation(found), last);
    EXPECT_LT(variation(found), 1.5 * variation(power));  // noise never becomes structure
    last = variation(found);
    if (noise < 0.01) {
      raster::Grid mask(48, 48), true_mask(48, 48);
      for (std::size_t i = 0; i < mask.values.size(); ++i) {
        mask.values[i] = found.values[i] > 0.5 / (18 * 26) ? 1 : 0;
        true_mask.values[i] = power.values[i] > 0 ? 1 : 0;
      }
      EXPECT_GT(intersection_over_union(mask, true_mask), 0.9);
    }
  }
}

// ---- the whole way, on a coarse camera: a held-out SM of another layout

TEST(Recover, HeldOutSmOnACoarseCamera) {
  SimulatedSetUp set_up;
  set_up.sm = 0;
  set_up.frames = 60;
  set_up.pixel_m = 125e-6;
  set_up.seed = 11;
  const ExampleChip chip = example_chip(5);
  const Session session = simulated_session(chip, set_up);
  const auto recovery = recover(session, {}, "x");
  ASSERT_TRUE(recovery) << to_string(recovery.error());
  const auto all = scores(session, *recovery, chip.plan, "t");
  ASSERT_TRUE(all);
  std::map<std::string, MethodScore> by_name;
  for (const MethodScore& score : *all) by_name[score.method] = score;
  EXPECT_GE(by_name["rectangles"].iou, 0.84);
  EXPECT_LE(by_name["rectangles"].centroid_m, 25e-6);
  EXPECT_GE(by_name["tv"].iou, 0.80);
  EXPECT_LT(by_name["M0"].iou, 0.3);
  EXPECT_LT(by_name["M1-8"].iou, by_name["tv"].iou);
  EXPECT_NEAR(recovery->fit.misfit, 1, 0.3);
  EXPECT_NEAR(recovery->kelvin_span, 0.55, 0.2);
  for (std::size_t i = 0; i < recovery->plan.blocks.size(); ++i)
    for (std::size_t k = i + 1; k < recovery->plan.blocks.size(); ++k)
      EXPECT_LT(intersection_over_union(recovery->plan.blocks[i], recovery->plan.blocks[k]), 1e-9);
}

TEST(Recover, WhatCannotBeIsRefused) {
  SimulatedSetUp set_up;
  set_up.pixel_m = 500e-6;
  const Session good = simulated_session(example_chip(0), set_up);
  const auto why = [](const Session& session) {
    const auto fine = check_session(session, "s.json");
    return fine ? std::string() : to_string(fine.error());
  };
  EXPECT_EQ(why(good), "");
  Session bad = good;
  bad.pixel_m = 0.05;
  EXPECT_NE(why(bad).find("pixel_um"), std::string::npos);
  bad = good;
  bad.captures[2].watts[0] = -1;
  EXPECT_NE(why(bad).find("-1 W"), std::string::npos);
  bad = good;
  for (double& value : bad.captures[1].kelvin.values) value -= 273.15;
  EXPECT_NE(why(bad).find("200 to 500 K"), std::string::npos);
  bad = good;
  bad.captures[1].kelvin = raster::Grid(5, 5, 300);
  EXPECT_NE(why(bad).find("5 x 5"), std::string::npos);
}

TEST(SessionForms, ComeBackAsWritten) {
  SimulatedSetUp set_up;
  set_up.pixel_m = 500e-6;
  const StatedSession stated = stated_session(simulated_session(example_chip(0), set_up));
  const auto again = parse_session("s.json", session_json(stated));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, stated);
  std::string text = session_json(stated);
  text.replace(text.find("\"component\": \"EXE\""), 18, "\"component\": \"EXO\"");
  const auto unknown = parse_session("s.json", text);
  ASSERT_FALSE(unknown);
  EXPECT_NE(to_string(unknown.error()).find("'EXO' is unknown"), std::string::npos);
}

TEST(SessionForms, TheExampleOfTheDocumentationIsRead) {
  const std::string text = source_text("docs/formats.md");
  const auto begin = text.find("```yaml\n", text.find("\n## Infrared session\n")) + 8;
  const auto read =
      parse_session("formats.yaml", text.substr(begin, text.find("```\n", begin) - begin));
  ASSERT_TRUE(read) << to_string(read.error());
  const Session session = session_of(*read);
  EXPECT_EQ(session.components.at(2).inside, false);
  EXPECT_EQ(session.captures.at(1).watts, (std::vector<double>{0.9, 0.5, 0}));
  EXPECT_EQ(session.even.at(1).kelvin, 333.15);
  EXPECT_NEAR(session.thickness_m, 700e-6, 1e-12);
}

TEST(RecoveryForms, ComeBackAsWritten) {
  const StatedRecovery stated{
      0.5,
      1.1,
      {{"SM0_EXE_T", 1, 2, 3, 4, 0.9, 5.0, 6.0}, {"L2", 0, 0, 1, 1, {}, {}, {}}},
      {{"M0", 0.02, 1e9}, {"rectangles", 0.97, 6}}};
  const auto again = parse_recovery("r.json", recovery_json(stated));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, stated);
}

}  // namespace
}  // namespace partita::floorplan
