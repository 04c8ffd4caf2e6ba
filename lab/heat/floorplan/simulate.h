// An infrared session that never was: a chip under a camera, with all that is in the way. Its
// physics is not the one that recovery assumes: six sub-layers of silicon of another conductivity
// with the power at their bottom, underfill, substrate and board, a cooler that holds unevenly,
// heat that leaves at the edges; and optics that blur, noise, a fixed pattern, etched text that
// radiates less, counters that are wrong by some per cent.
#pragma once

#include <cstdint>

#include "heat/floorplan/example_chip.h"
#include "heat/floorplan/session.h"

namespace partita::floorplan {

struct SimulatedSetUp {
  int sm = 1;
  int frames = 600;  // per picture; the noise of their mean is that of one over their root
  double pixel_m = 50e-6;
  double power = 0.15;  // times what the programs use at most (1.6 to 2.4 W)
  bool etched = true;
  double noise_k = 0.05;  // of a frame
  double pattern_k = 0.01;
  double counter_error = 0.05;
  double silicon_m = 0.7e-3;
  std::uint64_t seed = 1;
};

// Pictures of idle, of every program and of two even temperatures. Temperatures are kelvin.
Session simulated_session(const ExampleChip& chip, const SimulatedSetUp& set_up);

// Where text is etched: 1, elsewhere 0; `share` of the pixels at least.
raster::Grid etched_text(int rows, int cols, double share, Rng random);

}  // namespace partita::floorplan
