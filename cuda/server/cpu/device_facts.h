// What the processor says of itself as a CUDA device: the attributes that programs ask for, those
// of compute capability 9.0 where a choice is to be made. Pure.
#pragma once

#include "ptx/machine.h"
#include "server/backend.h"

namespace partita::remote::cpu {

inline constexpr server::Status kNoBinary = 209;
inline constexpr std::uint32_t kComputeVersion = 90;
inline constexpr std::uint32_t kRegistersPerBlock = 65'536;
inline constexpr std::uint32_t kMostRegisters = 255;  // that a GPU has for a thread

struct DeviceSize {
  int units = 1;
  std::uint64_t memory = 0;
  std::uint32_t devices = 1;
};
server::DeviceSnapshot describe_device(const DeviceSize& size);

// CUDA's error for a fault; kSuccess where the launch goes on.
server::Status status_of(ptx::FaultKind kind);

}  // namespace partita::remote::cpu
