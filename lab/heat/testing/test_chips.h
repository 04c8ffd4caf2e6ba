// Small chips for the tests of this module.
#pragma once

#include "heat/network.h"

namespace partita::thermal {

// A die of 12 x 8 mm: two rows of blocks, of different widths.
inline Chip test_chip() {
  PackageConfig config;
  config.model_secondary = false;
  Floorplan plan;
  plan.width = 0.012;
  plan.height = 0.008;
  plan.blocks = {{"a", 0.005, 0.003, 0, 0},
                 {"b", 0.007, 0.003, 0.005, 0},
                 {"c", 0.004, 0.005, 0, 0.003},
                 {"d", 0.004, 0.005, 0.004, 0.003},
                 {"e", 0.004, 0.005, 0.008, 0.003}};
  return one_die(config, plan);
}

// Two dies, with interface material between and above; the second is one block.
inline Chip test_stack() {
  Chip chip = test_chip();
  chip.stack = true;
  Floorplan whole = chip.layers[0].plan;
  whole.blocks = {{"whole", 0.012, 0.008, 0, 0}};
  chip.layers[1].plan = whole;
  chip.layers.push_back(chip.layers[0]);
  chip.layers[2].plan = whole;
  chip.layers.push_back(chip.layers[1]);
  return chip;
}

}  // namespace partita::thermal
