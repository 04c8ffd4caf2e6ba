// Maps of the units of a GPU as squares, clusters as rows: what the pictures of masks and of lanes
// share. Internal to the forms.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hw/topology.h"
#include "plan/kernels.h"
#include "forms/svg_page.h"
#include "forms/vocabulary.h"

namespace partita::forms {

// Where the squares of a topology lie, in pixels from the corner of the map.
struct UnitGrid {
  struct Place {
    double x = 0, y = 0;
  };
  double cell = 9, pitch = 10;
  std::vector<Place> units;
  std::vector<double> rows;  // of every cluster, its top
  double width = 0, height = 0;
};
// Clusters of many units are folded; `gap` pixels between atoms.
UnitGrid unit_grid(const hw::Topology& topology, double cell, int atom, double gap);

// A square in the middle of the place of every unit, `side` as a share of the whole, as the d of
// one path; those of 0 are left out.
std::string squares(const UnitGrid& grid, const std::function<double(std::size_t)>& side);

// The maps of all lanes, worker after worker; returns the y below them. Nothing for no lanes.
int draw_lanes(SvgPage& svg, const std::vector<std::string>& workers, const Lanes& lanes,
               const hw::Topology& topology, int y, int width);

}  // namespace partita::forms
