#include "heat/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "heat/network_parts.h"
#include "heat/package.h"

namespace partita::thermal {
namespace {

constexpr double kSameCell = 1e-6;  // HotSpot's tolerance, in cells

// A layer of one material, before it is cut into cells.
struct Sheet {
  double conductivity = 0, capacity = 0, thickness = 0;
  bool lateral = true, power = false;
  int plan = 0;
  std::string prefix;
};

int tolerant(double value, double rounded) {
  const double nearest = std::floor(value + 0.5);
  return static_cast<int>(std::abs(value - nearest) < kSameCell ? nearest : rounded);
}

// The share of each cell in [from, to) that lies between `low` and `high`, all in cells.
std::vector<double> shares(int from, int to, double low, double high, bool hotspot) {
  std::vector<double> all;
  double sum = 0;
  for (int cell = from; cell < to; ++cell) {
    double share = std::min<double>(high, cell + 1) - std::max<double>(low, cell);
    if (std::abs(share) < kSameCell) share = 0;
    if (std::abs(share - 1) < kSameCell) share = 1;
    all.push_back(share);
    sum += share;
  }
  if (hotspot || all.empty()) return all;
  if (sum > 0) {  // what the tolerance cut off is not lost
    for (double& share : all) share *= (high - low) / sum;
  } else {
    all.front() = high - low;
  }
  return all;
}

BlockCells cells_of(const Network::Parts& parts, const Block& block, bool hotspot) {
  const double cell_width = parts.width / parts.cols, cell_height = parts.height / parts.rows;
  const double left = block.left / cell_width, right = (block.left + block.width) / cell_width;
  const double low = block.bottom / cell_height;
  const double high = (block.bottom + block.height) / cell_height;
  BlockCells cells;
  cells.name = block.name;
  cells.row_from = std::max(0, parts.rows - tolerant(high, std::ceil(high)));
  cells.row_to = parts.rows - tolerant(low, std::floor(low));
  cells.col_from = tolerant(left, std::floor(left));
  cells.col_to = std::min(parts.cols, tolerant(right, std::ceil(right)));
  // Rows count from the north.
  cells.row_share =
      shares(cells.row_from, cells.row_to, parts.rows - high, parts.rows - low, hotspot);
  cells.col_share = shares(cells.col_from, cells.col_to, left, right, hotspot);
  cells.cells = (right - left) * (high - low);
  return cells;
}

std::vector<Sheet> sheets_of(const Chip& chip) {
  const PackageConfig& c = chip.config;
  std::vector<Sheet> sheets;
  const auto passive = [&](Solid solid, double thickness, int plan, std::string prefix) {
    sheets.push_back(
        {solid.conductivity, solid.capacity, thickness, true, false, plan, std::move(prefix)});
  };
  if (c.model_secondary) {
    passive(kBoard, c.t_pcb, 0, "pcb_");
    passive(kSolderBalls, c.t_solder, 0, "solder_");
    passive(kSubstrate, c.t_sub, 0, "sub_");
    if (!chip.stack) {
      passive(kC4, c.t_c4, 0, "c4_");
      passive(kMetal, c.t_metal, 0, "metal_");
    }
  }
  int plan = 0;
  for (const ChipLayer& layer : chip.layers) {
    const std::string name = chip.stack  ? fmt::format("layer_{}_", sheets.size())
                             : plan == 0 ? ""
                                         : "iface_";
    sheets.push_back({layer.conductivity, layer.capacity, layer.thickness, layer.lateral,
                      layer.power, plan++, name});
  }
  passive({c.k_spreader, c.p_spreader}, c.t_spreader, plan - 1, "hsp_");
  passive({c.k_sink, c.p_sink}, c.t_sink, plan - 1, "hsink_");
  return sheets;
}

// Between layer and layer, and from the sink to ambient. The plain scheme has a cell's node at its
// lower face; -detailed_3D has it in the middle, where HotSpot then counts half of the convection
// twice and all of the lowest layer.
void connect_upwards(Network::Parts& parts, const Chip& chip, const std::vector<Sheet>& sheets,
                     bool hotspot) {
  const PackageConfig& c = chip.config;
  const double area = parts.width / parts.cols * (parts.height / parts.rows);
  const double film = c.r_convec * c.s_sink * c.s_sink / area;
  std::vector<double> through;
  for (const Sheet& sheet : sheets) through.push_back(sheet.thickness / sheet.conductivity / area);
  const std::size_t last = sheets.size() - 1;
  const bool middles = c.detailed_3d && chip.stack;
  const double to_ambient = (middles && !hotspot ? through[last] / 2 : through[last]) + film;
  parts.layers[last].ambient = 1 / to_ambient;
  if (middles && hotspot) through[last] += film;
  for (std::size_t n = 0; n < last; ++n) {
    const double lower = middles && !(hotspot && n == 0) ? through[n] / 2 : through[n];
    parts.layers[n].above = 1 / (lower + (middles ? through[n + 1] / 2 : 0));
  }
}

std::vector<CellLayer> cell_layers(const Network::Parts& parts, const Chip& chip,
                                   const std::vector<Sheet>& sheets, bool hotspot) {
  const PackageConfig& c = chip.config;
  const double cell_width = parts.width / parts.cols, cell_height = parts.height / parts.rows;
  const double area = cell_width * cell_height;
  std::vector<CellLayer> layers;
  for (const Sheet& sheet : sheets) {
    CellLayer layer;
    const double sheet_conductance = sheet.conductivity * sheet.thickness;
    if (sheet.lateral || (hotspot && c.detailed_3d && chip.stack)) {
      layer.east = sheet_conductance * cell_height / cell_width;
      layer.south = sheet_conductance * cell_width / cell_height;
      if (hotspot) std::swap(layer.east, layer.south);  // HotSpot's find_res
    }
    layer.capacity = kLumpedCapacity * sheet.capacity * sheet.thickness * area;
    layer.power = sheet.power;
    layer.prefix = sheet.prefix;
    layer.plan = sheet.plan;
    layers.push_back(std::move(layer));
  }
  layers.back().capacity += kLumpedCapacity * c.c_convec * area / (c.s_sink * c.s_sink);
  if (c.model_secondary) {
    layers.front().capacity += kLumpedCapacity * c.c_convec_sec * area / (c.s_pcb * c.s_pcb);
    layers.front().ambient = area / (c.r_convec_sec * c.s_pcb * c.s_pcb);
  }
  return layers;
}

Result<void> check_plates(const PackageConfig& c, double side) {
  const auto at_least = [](const char* what, double have, const char* than, double need) {
    return have >= need * (1 - 1e-9)
               ? Result<void>()
               : Result<void>(bad_input(
                     "", fmt::format("{} is {} m, less than {}, {} m", what, have, than, need)));
  };
  Result<void> checked = at_least("s_spreader", c.s_spreader, "the die", side);
  if (checked) checked = at_least("s_sink", c.s_sink, "s_spreader", c.s_spreader);
  if (!checked || !c.model_secondary) return checked;
  checked = at_least("s_sub", c.s_sub, "the die", side);
  if (checked) checked = at_least("s_solder", c.s_solder, "the die", side);
  if (checked) checked = at_least("s_pcb", c.s_pcb, "s_solder", c.s_solder);
  return checked;
}

Result<void> check_chip(const Chip& chip, const NetworkOptions& options) {
  const auto in_range = [](int n) { return n >= 1 && n <= kMostGridSide; };
  if (!in_range(options.rows) || !in_range(options.cols))
    return bad_input("", fmt::format("a grid of {} x {} cells; each side is to be 1 .. {}",
                                     options.rows, options.cols, kMostGridSide));
  if (chip.layers.empty()) return bad_input("", "a chip without layers");
  bool power = false;
  const double width = chip.layers.front().plan.width, height = chip.layers.front().plan.height;
  for (const ChipLayer& layer : chip.layers) {
    if (!(layer.conductivity > 0 && layer.capacity > 0 && layer.thickness > 0))
      return bad_input("", "a layer whose conductivity, capacity or thickness is not positive");
    if (layer.plan.blocks.empty()) return bad_input("", "a layer without blocks");
    if (std::abs(layer.plan.width - width) > kSameCell ||
        std::abs(layer.plan.height - height) > kSameCell)
      return bad_input("", fmt::format("layers of {} x {} m and of {} x {} m", width, height,
                                       layer.plan.width, layer.plan.height));
    power = power || layer.power;
  }
  if (!power) return bad_input("", "no layer dissipates power");
  return check_plates(chip.config, std::max(width, height));
}

}  // namespace

Network::Network(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
int Network::rows() const { return parts_->rows; }
int Network::cols() const { return parts_->cols; }
int Network::layers() const { return static_cast<int>(parts_->layers.size()); }
int Network::package_nodes() const { return static_cast<int>(parts_->package_capacity.size()); }
std::size_t Network::nodes() const { return parts_->nodes(); }
double Network::ambient() const { return parts_->ambient; }
const std::vector<std::string>& Network::block_names() const { return parts_->power_blocks; }

Chip one_die(const PackageConfig& config, const Floorplan& plan) {
  Chip chip;
  chip.config = config;
  chip.layers.push_back({config.p_chip, config.k_chip, config.t_chip, true, true, plan});
  chip.layers.push_back(
      {config.p_interface, config.k_interface, config.t_interface, true, false, plan});
  return chip;
}

Result<Network> make_network(const Chip& chip, const NetworkOptions& options) {
  TRY(check_chip(chip, options));
  auto parts = std::make_shared<Network::Parts>();
  parts->rows = options.rows;
  parts->cols = options.cols;
  parts->width = chip.layers.front().plan.width;
  parts->height = chip.layers.front().plan.height;
  parts->ambient = chip.config.ambient;
  parts->mode = chip.config.grid_map_mode;
  parts->cold_gaps = options.hotspot_compat;
  const std::vector<Sheet> sheets = sheets_of(chip);
  parts->layers = cell_layers(*parts, chip, sheets, options.hotspot_compat);
  connect_upwards(*parts, chip, sheets, options.hotspot_compat);
  add_package(*parts, chip.config);
  for (const ChipLayer& layer : chip.layers) {
    std::vector<BlockCells>& plan = parts->plans.emplace_back();
    for (const Block& block : layer.plan.blocks) {
      plan.push_back(cells_of(*parts, block, options.hotspot_compat));
      const BlockCells& cells = plan.back();
      if (cells.row_from >= cells.row_to || cells.col_from >= cells.col_to)
        return bad_input("", fmt::format("block {} lies in no cell of the grid", block.name));
      if (layer.power) parts->power_blocks.push_back(block.name);
    }
  }
  return Network(std::move(parts));
}

raster::Grid layer_map(const Network& network, const Solution& solution, int layer) {
  raster::Grid grid(network.rows(), network.cols());
  const std::size_t cells = network.parts().cells();
  CHECK(solution.kelvin.size() == network.nodes() && layer >= 0 && layer < network.layers());
  const auto from = solution.kelvin.begin() + static_cast<std::ptrdiff_t>(cells * at(layer));
  std::copy(from, from + static_cast<std::ptrdiff_t>(cells), grid.values.begin());
  return grid;
}

std::vector<int> power_layers(const Network& network) {
  std::vector<int> layers;
  for (int n = 0; n < network.layers(); ++n)
    if (network.parts().layers[at(n)].power) layers.push_back(n);
  return layers;
}

double block_temperature(const Network::Parts& parts, std::span<const double> map,
                         const BlockCells& cells) {
  const auto cell = [&](int row, int col) { return map[at(row * parts.cols + col)]; };
  if (parts.mode == MapMode::center) {
    const int rows = cells.row_to - cells.row_from, cols = cells.col_to - cells.col_from;
    const int row = (cells.row_from + cells.row_to) / 2, col = (cells.col_from + cells.col_to) / 2;
    const int row2 = row - (rows % 2 == 0), col2 = col - (cols % 2 == 0);
    return (cell(row, col) + cell(row2, col) + cell(row, col2) + cell(row2, col2)) / 4;
  }
  double sum = 0, least = cell(cells.row_from, cells.col_from), most = least;
  for (int row = cells.row_from; row < cells.row_to; ++row)
    for (int col = cells.col_from; col < cells.col_to; ++col) {
      sum += cell(row, col);
      least = std::min(least, cell(row, col));
      most = std::max(most, cell(row, col));
    }
  if (parts.mode == MapMode::min) return least;
  if (parts.mode == MapMode::max) return most;
  return sum / ((cells.row_to - cells.row_from) * (cells.col_to - cells.col_from));
}

std::vector<double> block_temperatures(const Network& network, const Solution& solution) {
  const Network::Parts& parts = network.parts();
  std::vector<double> kelvin;
  for (const int layer : power_layers(network)) {
    const std::span<const double> map(solution.kelvin.data() + parts.cells() * at(layer),
                                      parts.cells());
    for (const BlockCells& cells : parts.plans[at(parts.layers[at(layer)].plan)])
      kelvin.push_back(block_temperature(parts, map, cells));
  }
  return kelvin;
}

}  // namespace partita::thermal
