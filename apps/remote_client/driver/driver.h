// The driver's interface: types that cross the border, and the table behind cuGetProcAddress.
#pragma once

#include "abi.h"
#include "copies.h"

namespace partita::remote::shim {

using client::kInvalidValue;
using client::kOk;
using DevicePtr = unsigned long long;  // CUdeviceptr

struct DriverLaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
static_assert(sizeof(DriverLaunchConfig) == 56);

struct DriverCopy2D {  // CUDA_MEMCPY2D
  std::size_t from_x, from_y;
  int from_type;
  const void* from_host;
  DevicePtr from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  int to_type;
  void* to_host;
  DevicePtr to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width, height;
};
static_assert(sizeof(DriverCopy2D) == 128);

}  // namespace partita::remote::shim
