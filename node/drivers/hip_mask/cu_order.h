// How AMD GPUs number compute units: what bit of a CU mask is which CU, and which of our units.
//
// The kernel driver deals the bits of a mask to CUs (amdkfd, mqd_symmetrically_map_cu_mask): bit 0
// to CU 0 of the first shader engine, bit 1 to CU 0 of the next, and so on over all shader engines,
// then over their second shader arrays, then the same for CU 1. A shader array that has no more
// CUs is passed over. With several dies (XCCs), bit i belongs to XCC i mod XCCs, and each XCC deals
// its bits by itself. From gfx10 on CUs are masked in pairs, the two of a work-group processor
// (WGP), which have neighbouring bits: a kernel that asks for one CU of a pair would hang.
//
// Our units are the same CUs sorted by cluster -- XCC where there are several, else shader engine
// -- and in a cluster by bit. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/result.h"
#include "hw/topology.h"

namespace partita::drivers::hip_mask {

// A CU as the kernel driver counts: the cu-th of those that are in use in its shader array.
struct CuPlace {
  int xcc = 0, engine = 0, array = 0, cu = 0;
  auto operator<=>(const CuPlace&) const = default;
};

// CUs in use per shader array.
struct CuLayout {
  int xccs = 1;
  int engines = 1;          // per XCC
  int arrays = 1;           // per engine
  int step = 1;             // CUs that are masked together: 2 from gfx10 on
  std::vector<int> active;  // of array (xcc, engine, array), in this order
  int cus_of(int xcc, int engine, int array) const;
  bool operator==(const CuLayout&) const = default;
};

// The layout of a topology whose clusters are XCCs (`dies`) or shader engines.
CuLayout layout_of(const hw::Topology& topology, bool dies, int step);

// The CU of each bit. not_supported: XCCs with different numbers of CUs, of which some could not be
// asked for, and arrays with half a pair.
Result<std::vector<CuPlace>> places_of_bits(const CuLayout& layout);
// The bit of each of our units.
Result<std::vector<int>> bits_of_units(const CuLayout& layout);

// A mask of units in words of 32 bits, as HIP takes it; `bits` as bits_of_units() gives.
std::vector<std::uint32_t> cu_words(const std::vector<int>& bits, const hw::UnitMask& mask);

// ---- where a wave runs ----

// How the hardware's registers say where a wave runs.
enum class SiteForm : std::uint32_t {
  gfx9 = 1,       // HW_ID: CU 11:8, array 12, engine 14:13
  gfx9_wide = 2,  // gfx908, gfx90a, gfx94x, gfx95x: engine 15:13; gfx94x on: the XCC_ID register
  gfx10 = 3,      // HW_ID1: WGP 13:10, array 16, engine 19:18
  gfx11 = 4,      // HW_ID1: engine 20:18
};

// The CU, or from gfx10 on the WGP, by its place on the die, where some are not in use.
CuPlace site_of(SiteForm form, std::uint32_t hw_id, std::uint32_t xcc_id);

// The unit of each site that is in use, given all of them in any order and the bits of our units:
// in its shader array the n-th site is the n-th CU or pair. Of a pair, its first unit.
// not_supported as places_of_bits(); environment when sites and units differ in number.
Result<std::map<CuPlace, int>> units_of_sites(const std::set<CuPlace>& sites, int step,
                                              const std::vector<int>& bits);

}  // namespace partita::drivers::hip_mask
