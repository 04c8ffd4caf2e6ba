// A chip of the size of a GTX 1050's with 66 blocks, its package, and eight workloads that differ
// in what they heat and in how much they wait for memory. Invented, but for the sizes, the 17.4 W
// of idle power and the kinds of blocks.
#pragma once

#include <vector>

#include "heat/config.h"
#include "heat/floorplan.h"
#include "heat/dtm/dtm.h"

namespace partita::dtm {

thermal::Floorplan example_plan();
thermal::PackageConfig example_package();
std::vector<double> example_idle(const thermal::Floorplan& plan);
std::vector<HotWork> example_workloads(const thermal::Floorplan& plan);

}  // namespace partita::dtm
