#include "client/device.h"

#include <algorithm>
#include <cstring>

namespace partita::remote::client {
namespace {

constexpr std::int64_t kRegisterUnit = 256;  // given to a warp
constexpr std::int64_t kWarpGroups = 4;      // registers are divided among the schedulers
constexpr std::int64_t kSharedUnit = 128;

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

int& current_device() {
  static thread_local int current = 0;
  return current;
}

Device device_of(const Hello::Reply& reply) {
  Device device;
  device.name = reply.device;
  device.backend = reply.backend;
  device.count = std::clamp(static_cast<int>(reply.devices), 1, kMostDevices);
  device.total_memory = reply.total_memory;
  device.driver_version = reply.driver_version;
  std::copy_n(reply.uuid.begin(), std::min(reply.uuid.size(), device.uuid.size()),
              device.uuid.begin());
  device.attributes.resize(reply.attributes.size() / sizeof(std::int32_t));
  if (!device.attributes.empty())
    std::memcpy(device.attributes.data(), reply.attributes.data(),
                device.attributes.size() * sizeof(std::int32_t));
  // Managed memory is the client's, and seen by one side at a time.
  constexpr std::size_t kManaged = 83, kPageable = 88, kConcurrentManaged = 89, kHostTables = 100,
                        kDirectManaged = 101;
  device.attributes.resize(std::max(device.attributes.size(), kDirectManaged + 1));
  device.attributes[kManaged] = 1;
  for (const std::size_t none : {kPageable, kConcurrentManaged, kHostTables, kDirectManaged})
    device.attributes[none] = 0;
  return device;
}

int resident_blocks(const Device& device, const KernelAttributes::Reply& kernel, int threads,
                    std::uint64_t dynamic_shared) {
  const std::int64_t warp = device.limit(Attribute::warp, 32);
  if (threads <= 0 || threads > static_cast<std::int64_t>(kernel.max_threads)) return 0;
  const std::int64_t warps = (threads + warp - 1) / warp;
  const std::int64_t most_warps = device.limit(Attribute::threads_per_unit, 2048) / warp;
  std::int64_t blocks = std::min(most_warps / warps, device.limit(Attribute::blocks_per_unit, 32));
  if (kernel.registers > 0) {
    const std::int64_t each = rounded_up(kernel.registers * warp, kRegisterUnit);
    const std::int64_t per_group =
        device.limit(Attribute::registers_per_unit, 65536) / kWarpGroups / each;
    blocks = std::min(blocks, per_group * kWarpGroups / warps);
  }
  const auto used = static_cast<std::int64_t>(kernel.shared_bytes + dynamic_shared);
  const std::int64_t reserved = device.attribute(Attribute::reserved_shared);
  const std::int64_t most = std::max(device.limit(Attribute::shared_per_block_optin, 0),
                                     device.limit(Attribute::shared_per_block, 48 * 1024));
  if (used > most) return 0;
  const std::int64_t each_shared = rounded_up(used + reserved, kSharedUnit);
  if (each_shared > 0)
    blocks = std::min(blocks, device.limit(Attribute::shared_per_unit, most) / each_shared);
  return static_cast<int>(std::max<std::int64_t>(blocks, 0));
}

}  // namespace partita::remote::client
