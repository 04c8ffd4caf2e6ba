// The device as the server described it once: what queries are answered from.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "wire/operations.h"

namespace partita::remote::client {

// Numbers of CUdevice_attribute, which cudaDeviceAttr shares.
enum class Attribute : std::uint32_t {
  max_threads_per_block = 1,
  max_block_x = 2,
  max_block_y = 3,
  max_block_z = 4,
  max_grid_x = 5,
  max_grid_y = 6,
  max_grid_z = 7,
  shared_per_block = 8,
  const_memory = 9,
  warp = 10,
  max_pitch = 11,
  registers_per_block = 12,
  clock_khz = 13,
  texture_alignment = 14,
  units = 16,
  unified_addressing = 41,
  threads_per_unit = 39,
  major = 75,
  minor = 76,
  stream_priorities = 78,
  shared_per_unit = 81,
  registers_per_unit = 82,
  cooperative = 95,
  shared_per_block_optin = 97,
  blocks_per_unit = 106,
  reserved_shared = 111,
  memory_pools = 115,
};

inline constexpr int kMostDevices = 16;
// Of this thread: the device that the runtime or the current context names.
int& current_device();

struct Device {
  std::string name, backend;
  int count = 1;  // devices like this one
  std::uint64_t total_memory = 0;
  std::uint32_t driver_version = 0;
  std::array<std::byte, 16> uuid = {};
  std::vector<std::int32_t> attributes;

  std::int32_t attribute(std::uint32_t number) const {
    return number < attributes.size() ? attributes[number] : 0;
  }
  // Of the `number`-th: its bus, and the last byte of its UUID, are its own.
  std::int32_t attribute_on(std::uint32_t which, int number) const {
    constexpr std::uint32_t kBus = 33;
    return attribute(which) + (which == kBus ? number : 0);
  }
  std::array<std::byte, 16> uuid_on(int number) const {
    auto own = uuid;
    own.back() = static_cast<std::byte>(std::to_integer<int>(own.back()) + number);
    return own;
  }
  std::int32_t attribute(Attribute which) const {
    return attribute(static_cast<std::uint32_t>(which));
  }
  // As attribute(), `otherwise` where the server said nothing.
  std::int64_t limit(Attribute which, std::int64_t otherwise) const {
    const std::int32_t value = attribute(which);
    return value > 0 ? value : otherwise;
  }
  std::uint32_t sm() const {
    return static_cast<std::uint32_t>(attribute(Attribute::major) * 10 +
                                      attribute(Attribute::minor));
  }
};

Device device_of(const Hello::Reply& reply);

// Blocks of a kernel that one multiprocessor holds at the same time: the least of what threads,
// blocks, registers (given to warps in units of 256) and shared memory allow.
int resident_blocks(const Device& device, const KernelAttributes::Reply& kernel, int threads,
                    std::uint64_t dynamic_shared);

}  // namespace partita::remote::client
