#include "heat/floorplan/simulate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heat/floorplan/score.h"
#include "heat/floorplan/slab.h"

namespace partita::floorplan {
namespace {

constexpr double kAround = 298.15, kCooler = 283.15;  // kelvin: the room, the Peltier element
constexpr double kBlurPx = 0.8, kTextShare = 0.23, kEmissivityLoss = 0.10;
constexpr int kSubLayers = 6;

double normal(Rng& random) {
  const double u = 1 - random.uniform(), v = random.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Slab bench_slab(int rows, int cols, const SimulatedSetUp& set_up) {
  Slab slab;
  slab.cell_m = set_up.pixel_m;
  for (int i = 0; i < kSubLayers; ++i)
    slab.layers.push_back({set_up.silicon_m / kSubLayers, 118, 0});
  slab.layers.push_back({80e-6, 1.5, 0});
  // The substrate and the board go on beyond the die: about their own thickness away they are cold.
  for (const auto& [thickness, conductivity] : {std::pair{0.8e-3, 10.0}, {1.6e-3, 10.0}})
    slab.layers.push_back(
        {thickness, conductivity, conductivity * thickness * set_up.pixel_m / 4e-3});
  slab.heated = kSubLayers - 1;
  slab.top_conductance = 25;
  slab.bottom_conductance = raster::Grid(rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const double x = (c + 0.5) / cols, y = (r + 0.5) / rows;
      slab.bottom_conductance.at(r, c) =
          4000 * (1 + 0.2 * std::cos(2.3 * x + 0.4) * std::sin(3.1 * y + 0.2) - 0.15 * x);
    }
  return slab;
}

// Gaussian, mirrored at the edges.
raster::Grid blurred(const raster::Grid& grid, double sigma) {
  const int reach = static_cast<int>(std::ceil(4 * sigma));
  std::vector<double> weights;
  double sum = 0;
  for (int i = -reach; i <= reach; ++i) {
    weights.push_back(std::exp(-i * i / (2 * sigma * sigma)));
    sum += weights.back();
  }
  const auto mirrored = [](int i, int n) { return i < 0 ? -i - 1 : i >= n ? 2 * n - 1 - i : i; };
  const auto along = [&](const raster::Grid& in, bool rows) {
    raster::Grid out(in.rows, in.cols);
    for (int r = 0; r < in.rows; ++r)
      for (int c = 0; c < in.cols; ++c) {
        double value = 0;
        for (int i = -reach; i <= reach; ++i)
          value += weights[static_cast<std::size_t>(i + reach)] / sum *
                   (rows ? in.at(mirrored(r + i, in.rows), c) : in.at(r, mirrored(c + i, in.cols)));
        out.at(r, c) = value;
      }
    return out;
  };
  return along(along(grid, true), false);
}

// What stands between the chip's surface and a number in a file.
class Camera {
 public:
  Camera(int rows, int cols, const SimulatedSetUp& set_up, Rng random)
      : set_up_(set_up), random_(random), emissivity_(rows, cols, 1), pattern_(rows, cols) {
    const raster::Grid text = etched_text(rows, cols, kTextShare, random.split(1));
    Rng grain = random.split(2);
    for (std::size_t i = 0; i < pattern_.values.size(); ++i) {
      pattern_.values[i] = set_up.pattern_k * normal(grain);
      const double loss = kEmissivityLoss + 0.03 * normal(grain);
      if (set_up.etched && text.values[i] > 0.5) emissivity_.values[i] = 1 - loss;
    }
  }

  // The mean of the set-up's frames.
  raster::Grid picture(const raster::Grid& kelvin) {
    raster::Grid shone = kelvin;
    for (std::size_t i = 0; i < shone.values.size(); ++i)
      shone.values[i] = kAround + emissivity_.values[i] * (kelvin.values[i] - kAround);
    raster::Grid seen = blurred(shone, kBlurPx);
    const double noise = set_up_.noise_k / std::sqrt(set_up_.frames);
    for (std::size_t i = 0; i < seen.values.size(); ++i)
      seen.values[i] += pattern_.values[i] + noise * normal(random_);
    return seen;
  }

 private:
  const SimulatedSetUp& set_up_;
  Rng random_;
  raster::Grid emissivity_, pattern_;
};

void add_watts(raster::Grid& into, const thermal::Block& block, double watts, double pixel_m) {
  const raster::Grid cover = cover_of(block, into.rows, into.cols, pixel_m);
  const double scale = watts * pixel_m * pixel_m / (block.width * block.height);
  for (std::size_t i = 0; i < into.values.size(); ++i) into.values[i] += scale * cover.values[i];
}

raster::Grid program_watts(const ExampleChip& chip, const std::vector<Component>& components,
                           const std::vector<double>& watts, raster::Grid cells, double pixel_m) {
  for (std::size_t c = 0; c < components.size(); ++c)
    for (const thermal::Block& block : chip.plan.blocks) {
      const std::vector<std::string>& names = components[c].blocks;
      const auto at = std::find(names.begin(), names.end(), block.name);
      if (at == names.end()) continue;
      // Two blocks of one kind do not share evenly.
      const double share = names.size() == 1 ? 1 : at == names.begin() ? 0.53 : 0.47;
      add_watts(cells, block, share * watts[c], pixel_m);
    }
  return cells;
}

// Bounds of the SM's blocks.
thermal::Block window_of(const ExampleChip& chip, int sm) {
  const std::string prefix = "SM" + std::to_string(sm) + "_";
  double left = chip.plan.width, bottom = chip.plan.height, right = 0, top = 0;
  for (const thermal::Block& block : chip.plan.blocks)
    if (block.name.starts_with(prefix)) {
      left = std::min(left, block.left);
      bottom = std::min(bottom, block.bottom);
      right = std::max(right, block.left + block.width);
      top = std::max(top, block.bottom + block.height);
    }
  return {"SM" + std::to_string(sm), right - left, top - bottom, left, bottom};
}

raster::Grid even_temperature(int rows, int cols, double kelvin) {
  raster::Grid grid(rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const double x = 2.0 * c / cols - 1, y = 2.0 * r / rows - 1;
      grid.at(r, c) = kelvin - 0.05 * (x * x + 0.7 * y * y);  // the rim is a little colder
    }
  return grid;
}

}  // namespace

raster::Grid etched_text(int rows, int cols, double share, Rng random) {
  raster::Grid mask(rows, cols);
  const double size = std::min(rows, cols);
  const auto wanted = static_cast<long>(share * rows * cols);
  long done = 0;
  const auto dot = [&](double x, double y, double radius) {
    for (int r = std::max(0, static_cast<int>(y - radius)); r < std::min<double>(rows, y + radius);
         ++r)
      for (int c = std::max(0, static_cast<int>(x - radius));
           c < std::min<double>(cols, x + radius); ++c)
        if (mask.at(r, c) < 0.5 && std::hypot(c + 0.5 - x, r + 0.5 - y) <= radius)
          mask.at(r, c) = 1, ++done;
  };
  // Letters of three strokes each, line by line.
  for (int line = 0; done < wanted && line < 1000; ++line) {
    const double height = size * (0.07 + 0.05 * random.uniform()), width = 0.6 * height;
    const double golden = 0.6180339887 * (line + 1);  // lines spread evenly
    const double base = rows * (golden - std::floor(golden));
    for (double x = cols * 0.05; x < cols * 0.95 && done < wanted; x += 1.5 * width)
      for (int stroke = 0; stroke < 3; ++stroke) {
        const double x0 = x + width * std::floor(3 * random.uniform()) / 2;
        const double y0 = base + height * std::floor(3 * random.uniform()) / 2;
        const double x1 = x + width * std::floor(3 * random.uniform()) / 2;
        const double y1 = base + height * std::floor(3 * random.uniform()) / 2;
        for (int i = 0; i <= 40; ++i)
          dot(x0 + (x1 - x0) * i / 40, y0 + (y1 - y0) * i / 40, 0.008 * size);
      }
  }
  return mask;
}

Session simulated_session(const ExampleChip& chip, const SimulatedSetUp& set_up) {
  const int cols = static_cast<int>(std::lround(chip.plan.width / set_up.pixel_m));
  const int rows = static_cast<int>(std::lround(chip.plan.height / set_up.pixel_m));
  Rng random(set_up.seed);
  Camera camera(rows, cols, set_up, random.split(1));
  Rng counters = random.split(2);
  const Slab slab = bench_slab(rows, cols, set_up);
  Session session;
  session.pixel_m = set_up.pixel_m;
  session.noise_k = set_up.noise_k;
  session.thickness_m = set_up.silicon_m;
  session.blur_px = kBlurPx;
  session.components = example_components(set_up.sm);
  session.window = window_of(chip, set_up.sm);
  raster::Grid idle(rows, cols);
  for (std::size_t b = 0; b < chip.plan.blocks.size(); ++b)
    add_watts(idle, chip.plan.blocks[b], chip.idle_watts[b], set_up.pixel_m);
  std::vector<Program> programs = example_programs();
  programs.insert(programs.begin(), {"IDLE", std::vector<double>(session.components.size(), 0)});
  for (Program& program : programs) {
    for (double& watts : program.watts) watts *= set_up.power;
    raster::Grid kelvin = top_rise(
        slab, program_watts(chip, session.components, program.watts, idle, set_up.pixel_m));
    for (double& value : kelvin.values) value += kCooler;
    for (double& watts : program.watts)
      watts *= std::max(0.0, 1 + set_up.counter_error * normal(counters));
    session.captures.push_back(
        {program.name, program.watts, set_up.frames, camera.picture(kelvin)});
  }
  for (const double kelvin : {313.15, 333.15})
    session.even.push_back(
        {kelvin, set_up.frames, camera.picture(even_temperature(rows, cols, kelvin))});
  return session;
}

}  // namespace partita::floorplan
