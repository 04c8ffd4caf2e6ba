#include "heat/package.h"

#include <algorithm>

#include "base/index.h"

namespace partita::thermal {
namespace {

constexpr int kSides = 4;  // west, east, north, south
constexpr double kLeastCapacity = 1e-12;
enum Ring { spreader, sink_under, sink_rim, substrate, solder, board_under, board_rim };

int node_of(Ring ring, int side) { return kSides * ring + side; }

// The die as one side of the package sees it: its length towards that side, and across.
struct Seen {
  double along = 0, across = 0;
};

// A square plate of the package around the die's area.
struct Plate {
  double side = 0, thickness = 0;
  Solid solid;

  // One of the four pieces around the die.
  double area(Seen die) const { return (side + die.across) * (side - die.along) / 4; }
  double inner_resistance(Seen die) const {  // from the die's edge to the piece's node
    return (side - die.along) / (solid.conductivity * (side + 3 * die.across) * thickness);
  }
  double outer_resistance(Seen die) const {  // from there to the plate's edge
    return (side - die.along) / (solid.conductivity * (3 * side + die.across) * thickness);
  }
  double through(double area) const { return solid.conductivity * area / thickness; }
  double heat(double area) const { return kLumpedCapacity * solid.capacity * area * thickness; }
};

// The rim of a plate of which `inner` is the part under another plate.
double rim_area(const Plate& plate, double inner) {
  return (plate.side * plate.side - inner * inner) / 4;
}
double rim_resistance(const Plate& plate, double inner) {
  return (plate.side - inner) /
         (plate.solid.conductivity * (plate.side + 3 * inner) * plate.thickness);
}

// Where a layer of cells leaves the die's area for a piece of the plate it lies in.
void tie(Network::Parts& parts, CellLayer& layer, Ring ring, const Plate& plate) {
  const double cell_width = parts.width / parts.cols, cell_height = parts.height / parts.rows;
  const double sheet = plate.solid.conductivity * plate.thickness;
  const Seen x{parts.width, parts.height}, y{parts.height, parts.width};
  layer.ties.first_node = node_of(ring, 0);
  if (plate.area(x) > 0)
    layer.ties.west_east =
        1 / (cell_width / (sheet * cell_height) / 2 + parts.rows * plate.inner_resistance(x));
  if (plate.area(y) > 0)
    layer.ties.north_south =
        1 / (cell_height / (sheet * cell_width) / 2 + parts.cols * plate.inner_resistance(y));
}

// Collects links and capacities; what has no area is left at ambient.
class Builder {
 public:
  Builder(Network::Parts& parts, int rings) : parts_(parts) {
    parts_.package_capacity.assign(at(kSides * rings), 0);
  }
  void link(int from, int to, double conductance) {
    if (conductance > 0) parts_.links.push_back({from, to, conductance});
  }
  void hold(int node, double capacity) { parts_.package_capacity[at(node)] += capacity; }
  // Every node has something to hold on to, so that the equations have one solution.
  void close() {
    std::vector<bool> linked(parts_.package_capacity.size());
    for (const PackageLink& link : parts_.links) {
      linked[at(link.from)] = true;
      if (link.to >= 0) linked[at(link.to)] = true;
    }
    for (std::size_t i = 0; i < linked.size(); ++i) {
      if (!linked[i]) parts_.links.push_back({static_cast<int>(i), -1, 1});
      parts_.package_capacity[i] = std::max(parts_.package_capacity[i], kLeastCapacity);
    }
  }

 private:
  Network::Parts& parts_;
};

Seen seen_from(const Network::Parts& parts, int side) {
  return side < 2 ? Seen{parts.width, parts.height} : Seen{parts.height, parts.width};
}

void add_primary(Builder& builder, const Network::Parts& parts, const Plate& spread,
                 const Plate& sink, const PackageConfig& config) {
  const double film = 1 / (config.r_convec * sink.side * sink.side);  // W/(m^2 K)
  const double film_heat = kLumpedCapacity * config.c_convec / (sink.side * sink.side);
  const double rim = rim_area(sink, spread.side);
  for (int side = 0; side < kSides; ++side) {
    const Seen die = seen_from(parts, side);
    const double area = spread.area(die);
    if (area <= 0) continue;
    const Plate under{spread.side, sink.thickness, sink.solid};  // the sink where the spreader is
    builder.link(node_of(spreader, side), node_of(sink_under, side), spread.through(area));
    builder.hold(node_of(spreader, side), spread.heat(area));
    builder.link(node_of(sink_under, side), -1, 1 / (1 / sink.through(area) + 1 / (film * area)));
    builder.hold(node_of(sink_under, side), sink.heat(area) + film_heat * area);
    builder.link(node_of(sink_under, side), node_of(sink_rim, side),
                 1 / (under.outer_resistance(die) + rim_resistance(sink, spread.side)));
    if (rim > 0)
      builder.link(node_of(sink_rim, side), -1, 1 / (1 / sink.through(rim) + 1 / (film * rim)));
    builder.hold(node_of(sink_rim, side), sink.heat(rim) + film_heat * rim);
  }
}

struct SecondaryPlates {
  Plate substrate_plate, solder_plate, board_plate;
};

void add_secondary(Builder& builder, const Network::Parts& parts, const SecondaryPlates& plates,
                   const PackageConfig& config) {
  const auto& [sub, balls, board] = plates;
  const double film = 1 / (config.r_convec_sec * board.side * board.side);
  const double film_heat = kLumpedCapacity * config.c_convec_sec / (board.side * board.side);
  const double rim = rim_area(board, balls.side);
  for (int side = 0; side < kSides; ++side) {
    const Seen die = seen_from(parts, side);
    const double sub_area = sub.area(die), area = balls.area(die);
    if (sub_area > 0 && area > 0)
      builder.link(node_of(substrate, side), node_of(solder, side), balls.through(area));
    builder.hold(node_of(substrate, side), sub.heat(sub_area));
    if (area <= 0) continue;
    const Plate under{balls.side, board.thickness, board.solid};  // the board where the balls are
    builder.hold(node_of(solder, side), balls.heat(area));
    builder.link(node_of(solder, side), node_of(board_under, side), board.through(area));
    builder.link(node_of(board_under, side), -1, film * area);
    builder.hold(node_of(board_under, side), board.heat(area) + film_heat * area);
    builder.link(node_of(board_under, side), node_of(board_rim, side),
                 1 / (under.outer_resistance(die) + rim_resistance(board, balls.side)));
    builder.link(node_of(board_rim, side), -1, film * rim);
    builder.hold(node_of(board_rim, side), board.heat(rim) + film_heat * rim);
  }
}

}  // namespace

void add_package(Network::Parts& parts, const PackageConfig& config) {
  const Plate spread{config.s_spreader, config.t_spreader, {config.k_spreader, config.p_spreader}};
  const Plate sink{config.s_sink, config.t_sink, {config.k_sink, config.p_sink}};
  Builder builder(parts, config.model_secondary ? 7 : 3);
  const std::size_t last = parts.layers.size() - 1;
  tie(parts, parts.layers[last - 1], spreader, spread);
  // The die's part of the sink ends where the spreader's pieces begin.
  tie(parts, parts.layers[last], sink_under, {spread.side, sink.thickness, sink.solid});
  add_primary(builder, parts, spread, sink, config);
  if (config.model_secondary) {
    const Plate sub{config.s_sub, config.t_sub, kSubstrate};
    const Plate balls{config.s_solder, config.t_solder, kSolderBalls};
    const Plate board{config.s_pcb, config.t_pcb, kBoard};
    tie(parts, parts.layers[0], board_under, {balls.side, board.thickness, board.solid});
    tie(parts, parts.layers[1], solder, balls);
    tie(parts, parts.layers[2], substrate, sub);
    add_secondary(builder, parts, {sub, balls, board}, config);
  }
  builder.close();
}

}  // namespace partita::thermal
