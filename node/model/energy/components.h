// The component model: energy = sum over components of joules per access times accesses
// (dissertation of Chow, Eq. 5.1 and 5.2).
#pragma once

#include <string>
#include <vector>

namespace partita::energy {

struct ComponentCost {
  std::string name;           // "INT", "L2", "DRAM"; unique in a model
  double joules = 0;          // per access, at least 0
  double standard_error = 0;  // of joules; 0 where it is not known
  bool operator==(const ComponentCost&) const = default;
};

using ComponentModel = std::vector<ComponentCost>;

}  // namespace partita::energy
