#include "heat/floorplan/recover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "heat/floorplan/clean.h"
#include "heat/floorplan/deconvolve.h"
#include "heat/floorplan/score.h"

namespace partita::floorplan {
namespace {

using Grids = std::vector<raster::Grid>;

PixelBox window_pixels(const Session& session) {
  if (!session.window)
    return {0, static_cast<double>(session.cols()), 0, static_cast<double>(session.rows())};
  const thermal::Block& w = *session.window;
  const double pixel = session.pixel_m;
  return {w.left / pixel, (w.left + w.width) / pixel,
          session.rows() - (w.bottom + w.height) / pixel, session.rows() - w.bottom / pixel};
}

// A component that is not in the window can be anywhere else.
PixelBox place_of(const Session& session, const Component& component) {
  if (component.inside) return window_pixels(session);
  return {0, static_cast<double>(session.cols()), 0, static_cast<double>(session.rows())};
}

bool in_box(const PixelBox& box, int row, int col) {
  return row + 0.5 >= box.top && row + 0.5 < box.bottom && col + 0.5 >= box.left &&
         col + 0.5 < box.right;
}

// Without what belongs to the window, where a component is elsewhere.
raster::Grid seen_by(const Session& session, const Component& component, raster::Grid map) {
  if (component.inside || !session.window) return map;
  const PixelBox window = window_pixels(session);
  for (int r = 0; r < map.rows; ++r)
    for (int c = 0; c < map.cols; ++c)
      if (in_box(window, r, c)) map.at(r, c) = 0;
  return map;
}

// Cells over half of the largest value, which is the 98th percentile's: single cells are noise.
raster::Grid mask_over_half(const raster::Grid& map, const PixelBox& box) {
  std::vector<double> values;
  for (int r = 0; r < map.rows; ++r)
    for (int c = 0; c < map.cols; ++c)
      if (in_box(box, r, c)) values.push_back(map.at(r, c));
  raster::Grid mask(map.rows, map.cols);
  if (values.empty()) return mask;
  const auto high = values.begin() + static_cast<std::ptrdiff_t>(values.size() * 98 / 100);
  std::nth_element(values.begin(), high, values.end());
  const double level = *high / 2;
  for (int r = 0; r < map.rows; ++r)
    for (int c = 0; c < map.cols; ++c)
      mask.at(r, c) = in_box(box, r, c) && map.at(r, c) > level ? 1 : 0;
  return mask;
}

MethodMaps method(const Session& session, std::string name, std::string about, Grids maps) {
  MethodMaps made{std::move(name), std::move(about), std::move(maps), {}};
  for (std::size_t c = 0; c < session.components.size(); ++c) {
    made.maps[c] = seen_by(session, session.components[c], std::move(made.maps[c]));
    made.masks.push_back(mask_over_half(made.maps[c], place_of(session, session.components[c])));
  }
  return made;
}

bool is_idle(const Capture& capture) {
  return std::all_of(capture.watts.begin(), capture.watts.end(), [](double w) { return w == 0; });
}

// The dissertation's maps: pictures less their mean, each for the component that its program
// stresses most above the mean of all programs.
Grids difference_maps(const Session& session, const Grids& pictures) {
  const std::size_t components = session.components.size();
  raster::Grid mean(session.rows(), session.cols());
  std::vector<double> mean_watts(components, 0);
  double programs = 0;
  for (std::size_t b = 0; b < pictures.size(); ++b) {
    if (is_idle(session.captures[b])) continue;
    programs += 1;
    for (std::size_t i = 0; i < mean.values.size(); ++i) mean.values[i] += pictures[b].values[i];
    for (std::size_t c = 0; c < components; ++c) mean_watts[c] += session.captures[b].watts[c];
  }
  Grids maps(components, raster::Grid(session.rows(), session.cols()));
  std::vector<int> programs_of(components, 0);
  for (std::size_t b = 0; b < pictures.size(); ++b) {
    if (is_idle(session.captures[b])) continue;
    std::size_t stressed = 0;
    double most = -1e300;
    for (std::size_t c = 0; c < components; ++c) {
      const double above = session.captures[b].watts[c] - mean_watts[c] / programs;
      if (above > most) most = above, stressed = c;
    }
    ++programs_of[stressed];
    for (std::size_t i = 0; i < mean.values.size(); ++i)
      maps[stressed].values[i] += pictures[b].values[i] - mean.values[i] / programs;
  }
  for (std::size_t c = 0; c < components; ++c)
    for (double& value : maps[c].values) value /= std::max(1, programs_of[c]);
  return maps;
}

Grids sources_of(const Grids& maps, double smooth_px) {
  Grids sources;
  for (const raster::Grid& map : maps)
    sources.push_back(negative_laplacian(smooth_px > 0 ? gaussian(map, smooth_px) : map));
  return sources;
}

void add_dissertation(const Session& session, std::vector<MethodMaps>& methods) {
  Grids filtered;
  for (const Capture& capture : session.captures)
    filtered.push_back(median_filtered(capture.kelvin, {}));
  const Grids maps = difference_maps(session, filtered);
  methods.push_back(method(session, "M0",
                           "dissertation: median filter, difference, negative Laplacian",
                           sources_of(maps, 0)));
  for (const int width : {4, 8, 12})
    methods.push_back(method(session, fmt::format("M1-{}", width),
                             fmt::format("M0 smoothed by a Gaussian of {} pixels", width),
                             sources_of(maps, width)));
}

// A first idea of the slab: what goes below from how warm a watt makes the whole die.
SlabGuess slab_from(const Session& session, const Unmixed& unmixed) {
  SlabGuess slab;
  slab.conductivity = session.conductivity;
  slab.thickness_m = session.thickness_m;
  double inverse = 0, weight = 0;
  for (std::size_t c = 0; c < unmixed.kelvin_per_watt.size(); ++c) {
    const raster::Grid& map = unmixed.kelvin_per_watt[c];
    double sum = 0;
    for (const double value : map.values) sum += value;
    const double worth = 1 / (unmixed.noise[c] * unmixed.noise[c] + 1e-300);
    inverse += worth * sum * session.pixel_m * session.pixel_m;
    weight += worth;
  }
  slab.bottom = std::clamp(weight / std::max(inverse, 1e-300), 50.0, 1e5);
  slab.contact = std::max(20000.0, 4 * slab.bottom);
  return slab;
}

// Moves edges of blocks that overlap to the middle of what both cover: the fit knows nothing of
// neighbours, HotSpot allows no overlap.
thermal::Floorplan apart(thermal::Floorplan plan) {
  for (int round = 0; round < 8; ++round)
    for (std::size_t i = 0; i < plan.blocks.size(); ++i)
      for (std::size_t k = i + 1; k < plan.blocks.size(); ++k) {
        thermal::Block &a = plan.blocks[i], &b = plan.blocks[k];
        const double x = std::max(a.left, b.left), y = std::max(a.bottom, b.bottom);
        const double x_end = std::min(a.left + a.width, b.left + b.width);
        const double y_end = std::min(a.bottom + a.height, b.bottom + b.height);
        if (x_end <= x || y_end <= y) continue;
        if (x_end - x < y_end - y) {
          thermal::Block &left = a.left + a.width / 2 < b.left + b.width / 2 ? a : b,
                         &right = &left == &a ? b : a;
          const double end = right.left + right.width, middle = (x + x_end) / 2;
          left.width = middle - left.left;
          right.left = middle;
          right.width = end - middle;
        } else {
          thermal::Block &low = a.bottom + a.height / 2 < b.bottom + b.height / 2 ? a : b,
                         &high = &low == &a ? b : a;
          const double end = high.bottom + high.height, middle = (y + y_end) / 2;
          low.height = middle - low.bottom;
          high.bottom = middle;
          high.height = end - middle;
        }
      }
  return plan;
}

thermal::Floorplan plan_of(const Session& session, const RectangleFit& fit) {
  thermal::Floorplan plan;
  const double pixel = session.pixel_m;
  plan.width = session.cols() * pixel;
  plan.height = session.rows() * pixel;
  for (std::size_t c = 0; c < session.components.size(); ++c)
    for (std::size_t r = 0; r < fit.boxes[c].size(); ++r) {
      const PixelBox& box = fit.boxes[c][r];
      plan.blocks.push_back({session.components[c].blocks[r], (box.right - box.left) * pixel,
                             (box.bottom - box.top) * pixel, box.left * pixel,
                             (session.rows() - box.bottom) * pixel});
    }
  return apart(std::move(plan));
}

double span_in_window(const Session& session, const Grids& pictures) {
  const PixelBox window = window_pixels(session);
  const Grids maps = difference_maps(session, pictures);
  double span = 0;
  for (const raster::Grid& rough : maps) {
    const raster::Grid map = gaussian(rough, 3);
    double low = 1e300, high = -1e300;
    for (int r = 0; r < map.rows; ++r)
      for (int c = 0; c < map.cols; ++c)
        if (in_box(window, r, c))
          low = std::min(low, map.at(r, c)), high = std::max(high, map.at(r, c));
    span = std::max(span, high - low);
  }
  return span;
}

// The pictures without etching: calibrated where that can be, else filtered.
Result<Grids> clean_pictures(const Session& session, const std::string& name) {
  Grids pictures;
  if (session.even.empty()) {
    for (const Capture& capture : session.captures)
      pictures.push_back(median_filtered(capture.kelvin, {}));
    return pictures;
  }
  const auto calibration = TRY(calibrated(session.even, name));
  for (const Capture& capture : session.captures)
    pictures.push_back(corrected(capture.kelvin, calibration));
  return pictures;
}

}  // namespace

Result<Recovery> recover(const Session& session, const RecoverOptions& options,
                         const std::string& name) {
  TRY(check_session(session, name));
  const auto pictures = TRY(clean_pictures(session, name));
  const auto components = TRY(unmixed(session, pictures, name));
  Recovery recovery;
  recovery.kelvin_span = span_in_window(session, pictures);
  if (options.dissertation) {
    add_dissertation(session, recovery.methods);
    if (!session.even.empty())
      recovery.methods.push_back(method(session, "M1c",
                                        "M1 of 4 pixels, calibrated instead of filtered",
                                        sources_of(difference_maps(session, pictures), 4)));
  }
  recovery.methods.push_back(method(session, "regression",
                                    "maps per component by their counters, 2 pixels",
                                    sources_of(components.kelvin_per_watt, 2)));
  const SlabGuess slab = slab_from(session, components);
  Grids linear, smooth;
  for (std::size_t c = 0; c < session.components.size(); ++c) {
    const Trust trust = trust_of(slab, session, components.noise[c]);
    linear.push_back(wiener(components.kelvin_per_watt[c], trust));
    smooth.push_back(smooth_power(components.kelvin_per_watt[c], trust, {options.variation, 120}));
  }
  recovery.methods.push_back(
      method(session, "wiener", "inverted, weighted by noise and model error", std::move(linear)));
  recovery.methods.push_back(
      method(session, "tv", "inverted, not negative, least total variation", std::move(smooth)));
  RectangleFit start;
  start.slab = slab;
  const MethodMaps& best = recovery.methods.back();
  for (std::size_t c = 0; c < session.components.size(); ++c)
    start.boxes.push_back(strongest_patches(best.maps[c], place_of(session, session.components[c]),
                                            static_cast<int>(session.components[c].blocks.size())));
  recovery.fit = fit_rectangles(session, pictures, start, {options.counter_error, 0.03, 40});
  recovery.plan = plan_of(session, recovery.fit);
  return recovery;
}

Result<std::vector<MethodScore>> scores(const Session& session, const Recovery& recovery,
                                        const thermal::Floorplan& truth, const std::string& name) {
  std::vector<std::vector<thermal::Block>> true_blocks;
  for (const Component& component : session.components) {
    true_blocks.emplace_back();
    for (const std::string& block : component.blocks) {
      const auto at = std::find_if(truth.blocks.begin(), truth.blocks.end(),
                                   [&](const thermal::Block& b) { return b.name == block; });
      if (at == truth.blocks.end())
        return bad_input(
            name, fmt::format("no block '{}', which component {} is in", block, component.name));
      true_blocks.back().push_back(*at);
    }
  }
  std::vector<MethodScore> all;
  for (const MethodMaps& maps : recovery.methods) {
    MethodScore score;
    score.method = maps.method;
    double count = 0;
    for (std::size_t c = 0; c < session.components.size(); ++c) {
      if (!session.components[c].inside) continue;
      const raster::Grid mask =
          mask_of(true_blocks[c], session.rows(), session.cols(), session.pixel_m);
      score.iou += intersection_over_union(maps.masks[c], mask);
      score.centroid_m += centroid_distance(maps.masks[c], mask, session.pixel_m);
      count += 1;
    }
    score.iou /= count;
    score.centroid_m /= count;
    all.push_back(std::move(score));
  }
  MethodScore rectangles;
  rectangles.method = "rectangles";
  std::size_t block = 0;
  for (std::size_t c = 0; c < session.components.size(); ++c)
    for (const thermal::Block& real : true_blocks[c]) {
      const thermal::Block& found = recovery.plan.blocks[block++];
      if (!session.components[c].inside) continue;
      rectangles.blocks.push_back({real.name, intersection_over_union(found, real),
                                   centroid_distance(found, real), edge_distance(found, real)});
    }
  for (const BlockScore& one : rectangles.blocks) {
    const double share = 1 / static_cast<double>(rectangles.blocks.size());
    rectangles.iou += share * one.iou;
    rectangles.centroid_m += share * one.centroid_m;
    rectangles.edge_m += share * one.edge_m;
  }
  all.push_back(std::move(rectangles));
  return all;
}

Result<void> check_session(const Session& session, const std::string& name) {
  const auto refuse = [&](std::string message) { return bad_input(name, std::move(message)); };
  if (session.captures.empty() || session.components.empty())
    return refuse("a session has captures and components");
  const int rows = session.rows(), cols = session.cols();
  if (rows < 8 || cols < 8) return refuse("pictures of less than 8 x 8 pixels show no blocks");
  for (const double side : {rows * session.pixel_m, cols * session.pixel_m})
    if (!(side >= 1e-4 && side <= 0.1))
      return refuse(
          fmt::format("the die would be {:.3g} mm long; 0.1 to 100 mm can be: see "
                      "pixel_um",
                      1e3 * side));
  std::set<std::string> names;
  for (const Component& component : session.components) {
    if (component.blocks.empty() || component.blocks.size() > 8)
      return refuse(fmt::format("component {} has {} blocks; 1 to 8 can be", component.name,
                                component.blocks.size()));
    for (const std::string& block : component.blocks)
      if (!names.insert(block).second)
        return refuse(fmt::format("block {} is in two components", block));
  }
  const auto check = [&](const raster::Grid& grid, const std::string& what) -> Result<void> {
    if (grid.rows != rows || grid.cols != cols)
      return refuse(fmt::format("{} is {} x {} pixels, the first capture {} x {}", what, grid.cols,
                                grid.rows, cols, rows));
    for (const double value : grid.values)
      if (!(value >= 200 && value <= 500))
        return refuse(
            fmt::format("{} shows {:.4g} K; a chip at work has 200 to 500 K", what, value));
    return {};
  };
  for (const Capture& capture : session.captures) {
    if (capture.watts.size() != session.components.size() || capture.frames < 1)
      return refuse(fmt::format("capture {} needs watts for every component", capture.name));
    for (const double watts : capture.watts)
      if (!(watts >= 0 && watts <= 2000))
        return refuse(fmt::format("capture {} has {} W in a component; 0 to 2000 can be",
                                  capture.name, watts));
    if (auto fine = check(capture.kelvin, "capture " + capture.name); !fine) return fine;
  }
  for (const EvenPicture& even : session.even)
    TRY(check(even.reading, fmt::format("the calibration at {} K", even.kelvin)));
  return {};
}

}  // namespace partita::floorplan
