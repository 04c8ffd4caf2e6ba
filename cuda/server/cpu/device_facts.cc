#include "server/cpu/device_facts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "server/cpu/cpu_backend.h"

namespace partita::remote::cpu {
namespace {

constexpr std::size_t kAttributes = 160;

// By the numbers of CUdevice_attribute.
constexpr std::pair<std::size_t, std::int32_t> kValues[] = {
    {1, 1024},                 // threads per block
    {2, 1024},                 // block x, y, z
    {3, 1024},                 //
    {4, 64},                   //
    {5, 0x7fff'ffff},          // grid x, y, z
    {6, 65'535},               //
    {7, 65'535},               //
    {8, 48 * 1024},            // shared memory per block
    {9, 64 * 1024},            // constant memory
    {10, 32},                  // warp size
    {11, 0x7fff'ffff},         // pitch
    {12, kRegistersPerBlock},  // registers per block
    {13, 1'500'000},           // clock, kHz: no meaning here
    {14, 512},                 // texture alignment
    {15, 1},                   // copies beside kernels
    {31, 1},                   // kernels beside kernels
    {36, 1'600'000},           // memory clock, kHz: no meaning here
    {37, 512},                 // memory bus, bits: likewise
    {38, 32 << 20},            // second-level cache
    {39, 2048},                // threads per multiprocessor
    {40, 2},                   // copy engines
    {41, 1},                   // one address space
    {51, 32},                  // texture pitch alignment
    {75, 9},                   // compute capability
    {76, 0},                   //
    {78, 1},                   // stream priorities
    {79, 1},                   // global and local memory in the first-level cache
    {80, 1},                   //
    {81, 228 * 1024},          // shared memory per multiprocessor
    {82, 65'536},              // registers per multiprocessor
    {87, 2},                   // single to double precision
    {95, 1},                   // cooperative launches
    {97, 227 * 1024},          // shared memory per block, when asked for
    {102, 1},                  // virtual memory management
    {103, 1},                  // its handles as files
    {106, 32},                 // blocks per multiprocessor
    {111, 1024},               // shared memory that is reserved per block
    {115, 1},                  // memory pools
    {119, 1},                  // their handles: files
    {125, 1},                  // events between processes
};

constexpr std::array<char, 16> kUuid = {'p', 'a', 'r', 't', 'i', 't', 'a', '-',
                                        'c', 'p', 'u', '-', '0', '0', '0', '1'};

}  // namespace

server::DeviceSnapshot describe_device(const DeviceSize& size) {
  server::DeviceSnapshot device;
  device.name = "Partita CPU";
  device.backend = "cpu";
  device.arena = ptx::kGlobalBase + kGlobalsBytes;
  // Room between allocations, so that addresses do not run out before memory does.
  device.arena_bytes = std::min(size.memory * 4, ptx::kMaxArenaBytes - kGlobalsBytes);
  device.granule = 1;  // exact sizes, so that the first byte behind an allocation is none of it
  device.total_memory = size.memory;
  device.uuid.resize(kUuid.size());
  std::memcpy(device.uuid.data(), kUuid.data(), kUuid.size());
  device.attributes.assign(kAttributes, 0);
  for (const auto& [number, value] : kValues) device.attributes[number] = value;
  device.attributes[16] = size.units;  // multiprocessors
  device.devices = size.devices;
  return device;
}

server::Status status_of(ptx::FaultKind kind) {
  switch (kind) {
    case ptx::FaultKind::out_of_bounds:
    case ptx::FaultKind::use_after_free:
    case ptx::FaultKind::read_only:
      return server::kIllegalAddress;
    case ptx::FaultKind::misaligned:
      return server::kMisalignedAddress;
    case ptx::FaultKind::uninitialised:
    case ptx::FaultKind::race:
    case ptx::FaultKind::divergence:
      return server::kSuccess;
    case ptx::FaultKind::illegal:
      return server::kIllegalInstruction;
    case ptx::FaultKind::assertion:
      return server::kAssert;
    case ptx::FaultKind::trap:
      return server::kLaunchFailure;
    case ptx::FaultKind::deadlock:
    case ptx::FaultKind::stopped:
      return server::kLaunchTimeout;
  }
  return server::kUnknown;
}

}  // namespace partita::remote::cpu
