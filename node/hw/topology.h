// Topology: the compute units of a GPU and how they lie in clusters -- SMs in GPCs, CUs in shader
// engines or dies -- as masks see them. Units are numbered cluster by cluster. Plain data, compiled
// in from data/topologies/*.json. Limits: kMaxUnits units in kMaxClusters clusters.
//
// On a GPU of several dies (MI300X) the dies are the clusters, equally large, and a die of which a
// mask has no unit runs unmasked: 1 CU of the first of eight dies of 38 reaches 1 + 7 x 38 = 267
// CUs. Work-groups are dealt to the dies in turn. So a mask has units of every die, and equally
// many: numbers that differ by at most an atom. A *grain* is the least that such a mask can grow by
// on all dies at once: an atom of each. With one die, grains are atoms.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::hw {

inline constexpr int kMaxUnits = 512;
inline constexpr int kMaxClusters = 64;

// A set of units.
using UnitMask = std::bitset<kMaxUnits>;

struct Topology {
  std::string name;                 // "MI50"
  std::string cluster_name = "SE";  // "SE", "GPC", "XCD"
  std::string unit_name = "CU";     // "CU", "SM"
  std::vector<int> units_in;        // per cluster
  std::vector<int> atoms = {1};     // how many units can only be masked together; first: default
  int dies = 1;                     // 1, or as many as clusters
  bool assumed = false;             // which unit lies in which cluster differs from board to board
  std::string source;
  bool operator==(const Topology&) const = default;

  int clusters() const { return static_cast<int>(units_in.size()); }
  int units() const;
};

// The topology in atoms of `atom` units: what is left over in a cluster belongs to no atom.
Topology in_atoms(const Topology& topology, int atom);
// The units of the atoms of `atoms`, a mask on in_atoms(topology, atom).
UnitMask units_of(const Topology& topology, int atom, const UnitMask& atoms);

int grains(const Topology& topology, int atom);
// The units of grains; mask bit i is the i-th atom of every die.
UnitMask units_of_grains(const Topology& topology, int atom, const UnitMask& grains);
UnitMask all_units(const Topology& topology);

// The numbers of units that a mask of whole atoms may have, ascending, from one atom of each die
// on; all of the GPU's, which need no mask, are the last.
std::vector<int> mask_sizes(const Topology& topology, int atom);

// Units of a mask per cluster.
std::vector<int> units_per_cluster(const Topology& topology, const UnitMask& mask);
// Units of a mask per die; one number where there is one die.
std::vector<int> units_per_die(const Topology& topology, const UnitMask& mask);

inline constexpr char kGenericSource[] = "generic";
// `clusters` clusters of `units` units, called "CLUSTERSxUNITS".
Topology generic_topology(int clusters, int units);

// One topology file. Refused with FILE:LINE.
Result<Topology> parse_topology(const std::string& file, std::string_view text);

// The compiled-in ones, sorted by name.
const std::vector<Topology>& builtin_topologies();
// The one of this name (case-insensitive; also a catalogue name that begins with it and a dash,
// "H200-141GB"), or "4x15" as a generic one; else bad_input with the nearest names.
Result<Topology> topology_named(std::string_view name);

// A mask as hexadecimal digits, unit 0 in the lowest bit; "0x" before it, no leading zeros.
std::string mask_hex(const UnitMask& mask);
// A mask in that form, leading zeros allowed; none where it is no such text.
std::optional<UnitMask> mask_of_hex(std::string_view text);

}  // namespace partita::hw
