#include "heat/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace partita::thermal {
namespace {

TEST(compare, values_by_hand) {
  const std::vector<double> reference{300, 310, 320, 330}, result{301, 312, 323, 334};
  const ValueAgreement a = value_agreement(result, reference, 290.0);
  EXPECT_NEAR(a.slope, 1.1, 1e-12);
  EXPECT_NEAR(a.intercept, -29, 1e-9);
  EXPECT_NEAR(a.pearson, 1, 1e-12);
  EXPECT_NEAR(a.spearman, 1, 1e-12);
  EXPECT_NEAR(a.mean_k, 2.5, 1e-12);
  EXPECT_NEAR(a.worst_k, 4, 1e-12);
  EXPECT_NEAR(*a.rise_error_geomean, 10, 1e-9);  // 1/10, 2/20, 3/30, 4/40
  EXPECT_NEAR(*a.rise_error_p95, 10, 1e-9);
}

TEST(compare, equal_ranks_share) {
  const std::vector<double> a{1, 1, 2}, b{5, 5, 9};
  EXPECT_NEAR(value_agreement(a, b, std::nullopt).spearman, 1, 1e-12);
  const std::vector<double> down{3, 2, 1}, up{1, 2, 3};
  EXPECT_NEAR(value_agreement(down, up, std::nullopt).spearman, -1, 1e-12);
  EXPECT_FALSE(value_agreement(down, up, std::nullopt).rise_error_p95);
}

TEST(compare, maps_that_are_moved_and_shifted) {
  raster::Grid reference(16, 16, 300);
  reference.at(3, 4) = 320;
  raster::Grid moved(16, 16, 300);
  moved.at(6, 8) = 320;
  const MapAgreement same = map_agreement(reference, reference, {}, 290.0);
  EXPECT_DOUBLE_EQ(same.similarity, 1);
  EXPECT_DOUBLE_EQ(same.histogram_overlap, 1);
  EXPECT_DOUBLE_EQ(same.wasserstein_k, 0);
  const MapAgreement far = map_agreement(moved, reference, {2, 1}, 290.0);
  EXPECT_NEAR(far.peak_distance, std::hypot(3.0, 8.0), 1e-12);
  EXPECT_DOUBLE_EQ(far.wasserstein_k, 0);  // the same temperatures, elsewhere
  EXPECT_LT(far.similarity, 0.9);
  raster::Grid warmer = reference;
  for (double& value : warmer.values) value += 2;
  const MapAgreement shifted = map_agreement(warmer, reference, {}, 290.0);
  EXPECT_NEAR(shifted.wasserstein_k, 2, 1e-9);
  EXPECT_NEAR(shifted.peak_k, 2, 1e-9);
  EXPECT_NEAR(shifted.normalised_rmse, 0, 1e-9);
}

}  // namespace
}  // namespace partita::thermal
