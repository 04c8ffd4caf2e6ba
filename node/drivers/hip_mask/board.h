// What an AMD GPU is, from what stays the same between versions of HIP and from what the kernel
// driver tells in /sys/class/kfd/kfd/topology/nodes/N/properties (lines "name value"). HIP alone
// does not tell shader engines. Plain data and pure functions, read_kfd_nodes() excepted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "drivers/hip_mask/cu_order.h"
#include "hw/topology.h"

namespace partita::drivers::hip_mask {

// A GPU as the kernel driver tells it.
struct KfdNode {
  int gfx = 0;      // 90006 is gfx906, 110000 gfx1100
  int cus = 0;      // in use
  int engines = 0;  // shader engines, of all XCCs
  int xccs = 1;
  int domain = 0;  // PCI
  int bus = 0;
  int device = 0;
  bool operator==(const KfdNode&) const = default;
};

// One properties file; nothing when it is no GPU's or not sensible.
std::optional<KfdNode> parse_kfd_node(std::string_view text);
// All GPUs of a folder; none where it cannot be read.
std::vector<KfdNode> read_kfd_nodes(const std::string& folder);

// What HIP tells.
struct HipFacts {
  std::string name;
  int major = 0;  // gfx
  int minor = 0;
  int multiprocessors = 0;  // CUs, or WGPs
  int physical = 0;         // likewise; 0 when not told
  int xccs = 0;             // 0 when not told
  std::optional<KfdNode> kfd;
};

struct HipBoard {
  std::string name;  // HIP's, or "gfx906"
  int major = 0;     // gfx
  int minor = 0;
  hw::Topology topology;  // shipped, or generic
  CuLayout layout;        // of its clusters
  std::vector<int> bits;  // of its units in a CU mask
  int told = 0;           // bits that HIP tells of a mask when it is read back
  std::string note;       // why the topology is a generic one; empty when it is a shipped one
};

// The topology is the shipped one of the board's name or architecture when its numbers of units
// and clusters are the board's, else a generic one. limit: more units than masks have.
// not_supported: dies with different numbers of CUs, on which no mask is known to have all of them.
Result<HipBoard> board_of(const HipFacts& facts);

}  // namespace partita::drivers::hip_mask
