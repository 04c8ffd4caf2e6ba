// A chip to try things on: six SMs of seven blocks in two columns, L2 between them, three
// interfaces to the outside and the graphics part, as large as the GTX 1050's (12.6 x 11.7 mm), and
// eight programs that each stress one part of an SM. The layout is ours; energies per access are
// Table 5.1 of Chow's dissertation.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "heat/floorplan/session.h"

namespace partita::floorplan {

struct ExampleChip {
  thermal::Floorplan plan;
  std::vector<double> idle_watts;  // per block, 17.4 in all
};
// Seed 0: round numbers; others move the lines between the blocks of an SM, the same in all SMs.
ExampleChip example_chip(std::uint64_t seed);

// What runs and what its counters say, per component of example_components().
struct Program {
  std::string name;
  std::vector<double> watts;
};
std::vector<Program> example_programs();
// The components of one SM: DECODE, EXE, RF, L1, SHRD, L2, and the blocks that they are in
// (Table 5.5).
std::vector<Component> example_components(int sm);

}  // namespace partita::floorplan
