// The fleet file: GPU models with the profiles measured on them, how many there are, what they
// cost. Limits: 1,000 models.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::decide {

// One line of a fleet file.
struct FleetLine {
  std::string gpu;           // catalogue name
  std::optional<int> count;  // absent: as many as needed
  double price = 1;
  std::string profiles;  // path, relative to the fleet file
  int line = 0;
  bool priced = false;  // it says a price
  int node_gpus = 8;    // of a node
  int nvlink = 0;       // of these, so many each are linked with each other; 0: all
  std::vector<std::vector<int>> domains = {};  // or those of each list, from 0 on in their order
  bool operator==(const FleetLine&) const = default;
};

// A list under `gpus` of gpu, profiles and optional count, price, node_gpus; or one under `nodes`
// of model, profiles, gpus (of each node) and optional count (of nodes), price, which says the
// same; or both.
Result<std::vector<FleetLine>> parse_fleet(const std::string& file, std::string_view text);

}  // namespace partita::decide
