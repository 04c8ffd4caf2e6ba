#include "hw/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <utility>

#include "base/append.h"
#include "base/check.h"
#include "base/form.h"
#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita::hw {
namespace {

// {file name, content} of every data/topologies/*.json, written by CMakeLists.txt.
constexpr std::pair<std::string_view, std::string_view> kShippedTopologies[] = {
#include "builtin_topologies.inc"
};

// "4x15"; nothing when it is no such text.
std::optional<std::pair<int, int>> counts_of(std::string_view text) {
  const std::optional<int> clusters = take_number<int>(text);
  if (!text.starts_with('x')) return std::nullopt;
  const std::optional<int> units = parse_number<int>(text.substr(1));
  if (!clusters || !units || *clusters < 1 || *units < 1) return std::nullopt;
  return std::pair(*clusters, *units);
}

void describe_topology(Form& f, Topology& topology) {
  constexpr ListForm kSome{.most = kMaxUnits, .least = 1};
  f.closed();
  f.name("name", topology.name, "");
  f.name("cluster", topology.cluster_name, "");
  f.name("unit", topology.unit_name, "");
  f.integers("units", topology.units_in, {1, kMaxUnits}, kSome, "");
  f.integers("atoms", topology.atoms, {1, kMaxUnits}, kSome, "");
  f.optional().integer("dies", topology.dies, {1, kMaxClusters}, "");
  f.optional().boolean("assumed", topology.assumed, "");
  f.text("source", topology.source, "");
  Fields* const in = f.reading();
  if (in == nullptr || in->error()) return;
  const auto unequal = [&](int units) { return units != topology.units_in.front(); };
  if (topology.dies > 1 &&
      (topology.dies != topology.clusters() || std::ranges::any_of(topology.units_in, unequal)))
    in->refuse("dies", "several dies are the clusters, and have equally many units");
  if (topology.units() > kMaxUnits)
    in->refuse("units", fmt::format("{} units; {} are the limit", topology.units(), kMaxUnits));
  if (topology.clusters() > kMaxClusters)
    in->refuse("units", fmt::format("more than {} clusters", kMaxClusters));
}

}  // namespace

int Topology::units() const { return std::accumulate(units_in.begin(), units_in.end(), 0); }

Topology in_atoms(const Topology& topology, int atom) {
  CHECK(atom >= 1);
  Topology coarse = topology;
  for (int& units : coarse.units_in) units /= atom;
  coarse.atoms = {1};
  return coarse;
}

UnitMask units_of(const Topology& topology, int atom, const UnitMask& atoms) {
  UnitMask mask;
  std::size_t number = 0, first = 0;
  for (const int units : topology.units_in) {
    for (int at = 0; at + atom <= units; at += atom, ++number) {
      for (int i = 0; i < atom && atoms[number]; ++i)
        mask.set(first + static_cast<std::size_t>(at + i));
    }
    first += static_cast<std::size_t>(units);
  }
  return mask;
}

int grains(const Topology& topology, int atom) {
  const Topology atoms = in_atoms(topology, atom);
  return atoms.dies > 1 ? atoms.units_in.front() : atoms.units();
}

UnitMask units_of_grains(const Topology& topology, int atom, const UnitMask& grains) {
  UnitMask atoms;
  const int each = hw::grains(topology, atom);
  for (int die = 0; die < topology.dies; ++die)
    atoms |= grains << static_cast<std::size_t>(die * each);
  return units_of(topology, atom, atoms);
}

UnitMask all_units(const Topology& topology) {
  return ~UnitMask{} >> static_cast<std::size_t>(kMaxUnits - topology.units());
}

std::vector<int> mask_sizes(const Topology& topology, int atom) {
  std::vector<int> sizes;
  const int atoms = in_atoms(topology, atom).units();
  for (int i = topology.dies; i <= atoms; ++i) sizes.push_back(i * atom);
  if (sizes.empty() || sizes.back() != topology.units()) sizes.push_back(topology.units());
  return sizes;
}

std::vector<int> units_per_cluster(const Topology& topology, const UnitMask& mask) {
  std::vector<int> counts;
  std::size_t unit = 0;
  for (const int size : topology.units_in) {
    int count = 0;
    for (int i = 0; i < size; ++i) count += mask[unit++];
    counts.push_back(count);
  }
  return counts;
}

std::vector<int> units_per_die(const Topology& topology, const UnitMask& mask) {
  if (topology.dies > 1) return units_per_cluster(topology, mask);
  return {static_cast<int>(mask.count())};
}

Topology generic_topology(int clusters, int units) {
  CHECK(clusters >= 1 && units >= 1 && clusters <= kMaxClusters && clusters <= kMaxUnits / units);
  Topology topology;
  topology.name = fmt::format("{}x{}", clusters, units);
  topology.cluster_name = "cluster";
  topology.unit_name = "unit";
  topology.units_in.assign(static_cast<std::size_t>(clusters), units);
  topology.source = kGenericSource;
  return topology;
}

Result<Topology> parse_topology(const std::string& file, std::string_view text) {
  return read_form<Topology>(file, text, describe_topology);
}

const std::vector<Topology>& builtin_topologies() {
  static const std::vector<Topology> all = [] {
    std::vector<Topology> parsed;
    for (const auto& [file, text] : kShippedTopologies) {
      auto topology = parse_topology(std::string(file), text);
      CHECK(topology.has_value());
      parsed.push_back(*std::move(topology));
    }
    std::ranges::sort(parsed, {}, &Topology::name);
    return parsed;
  }();
  return all;
}

Result<Topology> topology_named(std::string_view name) {
  const std::string wanted = lower_case(name);
  std::vector<std::string> names;
  for (const Topology& topology : builtin_topologies()) {
    const std::string known = lower_case(topology.name);
    if (known == wanted || wanted.starts_with(known + "-")) return topology;
    names.push_back(topology.name);
  }
  if (const auto generic = counts_of(wanted)) {
    if (generic->first <= kMaxClusters && generic->first <= kMaxUnits / generic->second)
      return generic_topology(generic->first, generic->second);
    return bad_input("gpu", fmt::format("'{}' has more than {} units or {} clusters", name,
                                        kMaxUnits, kMaxClusters));
  }
  return bad_input("gpu", fmt::format("no topology '{}'; there are {}, and CLUSTERSxUNITS", name,
                                      joined(names, ", ")));
}

std::string mask_hex(const UnitMask& mask) {
  std::string digits;
  for (int nibble = kMaxUnits / 4 - 1; nibble >= 0; --nibble) {
    int value = 0;
    for (int bit = 3; bit >= 0; --bit)
      value = 2 * value + (mask[static_cast<std::size_t>(4 * nibble + bit)] ? 1 : 0);
    if (value == 0 && digits.empty() && nibble > 0) continue;
    digits += "0123456789abcdef"[value];
  }
  return "0x" + digits;
}

std::optional<UnitMask> mask_of_hex(std::string_view text) {
  if (!text.starts_with("0x") || text.size() < 3 || text.size() > 2 + kMaxUnits / 4)
    return std::nullopt;
  UnitMask mask;
  for (const char digit : text.substr(2)) {
    const std::size_t value = std::string_view("0123456789abcdef").find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    mask = mask << 4 | UnitMask(value);
  }
  return mask;
}

}  // namespace partita::hw
