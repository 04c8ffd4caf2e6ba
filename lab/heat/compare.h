// How well one thermal result agrees with another: of blocks, of maps, of the distribution of
// temperatures. Temperatures are kelvin; errors in per cent are of the reference's rise above
// ambient, since a percentage of kelvin or Celsius says nothing.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "heat/raster/grid.h"

namespace partita::thermal {

struct ValueAgreement {
  int values = 0;
  double slope = 0, intercept = 0;  // of the result over the reference, least squares
  double pearson = 0, spearman = 0;
  double mean_k = 0, rms_k = 0, worst_k = 0;  // mean of the signed difference; root mean square
  // Of the rise: geometric mean and 95th percentile of the errors; empty without an ambient or
  // where nothing rises.
  std::optional<double> rise_error_geomean, rise_error_p95;
};
// The same number of values, at least one.
ValueAgreement value_agreement(std::span<const double> result, std::span<const double> reference,
                               std::optional<double> ambient);

struct MapAgreement {
  ValueAgreement cells;
  double normalised_rmse = 0;    // both maps scaled to 0 .. 1 first
  double similarity = 0;         // SSIM over windows of 8 x 8 cells, 1: the same
  double peak_k = 0;             // difference of the hottest cells' temperatures
  double peak_distance = 0;      // between the hottest cells, in the unit of `cell_width`
  double histogram_overlap = 0;  // of 64 bins over both maps' range, 0 .. 1
  double wasserstein_k = 0;      // how far the distribution would have to be moved
};
struct CellSize {
  double width = 1, height = 1;
};
// Maps of one size.
MapAgreement map_agreement(const raster::Grid& result, const raster::Grid& reference, CellSize cell,
                           std::optional<double> ambient);

}  // namespace partita::thermal
