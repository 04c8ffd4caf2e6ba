// What an infrared session hands in: pictures of a bare chip while known programs run on one part
// of it, the watts that their counters say, and pictures of the chip at even temperatures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heat/floorplan.h"
#include "heat/raster/grid.h"

namespace partita::floorplan {

// What one counter stands for: a kind of hardware, and the blocks that it is in.
struct Component {
  std::string name;
  std::vector<std::string> blocks;  // in the order from top to bottom, then from left to right
  bool inside = true;               // its blocks lie in the window
};

// The mean picture of one program, in kelvin.
struct Capture {
  std::string name;
  std::vector<double> watts;  // per component, above idle
  int frames = 1;             // of which this is the mean
  raster::Grid kelvin;
};

// The chip without power, at one temperature all over.
struct EvenPicture {
  double kelvin = 0;  // what a thermometer said
  int frames = 1;
  raster::Grid reading;
};

struct Session {
  double pixel_m = 50e-6;
  double noise_k = 0.05;        // of one frame (NETD)
  double thickness_m = 0.7e-3;  // of the silicon, as far as known
  double conductivity = 130;    // of the silicon, W/mK
  double blur_px = 0.8;         // of the optics
  std::vector<Component> components;
  std::vector<Capture> captures;         // one of them idle, at best
  std::vector<EvenPicture> even;         // none, or at least two temperatures
  std::optional<thermal::Block> window;  // where to look; the whole chip without

  int rows() const { return captures.front().kelvin.rows; }
  int cols() const { return captures.front().kelvin.cols; }
};

}  // namespace partita::floorplan
