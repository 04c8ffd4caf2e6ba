// What the rest of a node, beside its GPUs, said of its energy at a moment. Values.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/units.h"

namespace partita::telemetry {

// Sums over all sockets since somebody began to read; a figure that some socket does not tell is
// missing. psys is the whole platform's, with CPUs and memory in it: it is added to nothing.
struct HostEnergy {
  std::optional<Joules> cpu = {}, dram = {}, psys = {};
  bool operator==(const HostEnergy&) const = default;
};

struct HostSample {
  Seconds at;
  HostEnergy energy = {};
  std::string fault = {};  // why a figure is missing, or an interval was not counted
  // Seconds that CPUs worked, of all processes, and of those of some tenants; since when does not
  // matter. Missing: nobody knows.
  std::optional<double> cpu_s = {};
  std::map<std::string, double> cpu_of = {};
  bool operator==(const HostSample&) const = default;
};

}  // namespace partita::telemetry
