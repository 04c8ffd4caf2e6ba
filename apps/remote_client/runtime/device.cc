// The device, its properties, errors, versions.
#include <atomic>
#include <cstdio>
#include <string_view>

#include "abi.h"
#include "properties.h"

namespace partita::remote::shim {
namespace {

using client::kInvalidDevice;
using client::kInvalidValue;
using client::kOk;

constexpr int kRuntimeVersion = PARTITA_CUDART >= 13 ? 13000 : 12080;

struct ErrorName {
  int number;
  const char* name;
  const char* text;
};
constexpr ErrorName kErrors[] = {
#define ERROR_NAME(number, name, text) {number, #name, text},
#include "errors.inc"
#undef ERROR_NAME
};

const ErrorName* error_named(int number) {
  for (const ErrorName& error : kErrors)
    if (error.number == number) return &error;
  return nullptr;
}

const client::Device* device_snapshot(Status& status) {
  status = session().ready();
  return status == kOk ? &session().device() : nullptr;
}

// kOk for a device that there is.
Status check(int device) {
  const Status status = session().ready();
  if (status != kOk) return status;
  return device >= 0 && device < session().device().count ? kOk : kInvalidDevice;
}

Status set_device(int device) {
  const Status status = device == 0 ? kOk : check(device);
  if (status == kOk) client::current_device() = device;
  return status;
}

// Bit b of word a: device a may use memory of device b. All of it is one memory, so this is only
// what programs are told.
std::atomic<unsigned> peers[client::kMostDevices];

Status change_peer(int peer, bool enable) {
  if (const Status status = check(peer); status != kOk) return status;
  const int own = client::current_device();
  if (own == peer) return kInvalidDevice;
  constexpr Status kAlreadyEnabled = 704, kNotEnabled = 705;
  const unsigned bit = 1u << peer;
  const unsigned before = enable ? peers[own].fetch_or(bit) : peers[own].fetch_and(~bit);
  if (enable == ((before & bit) != 0)) return enable ? kAlreadyEnabled : kNotEnabled;
  return kOk;
}

}  // namespace

CUDA_EXPORT Status cudaGetLastError() {
  const Status last = last_error();
  last_error() = kOk;
  return asked_about(last != kOk ? last : session().failure());
}
CUDA_EXPORT Status cudaPeekAtLastError() {
  return asked_about(last_error() != kOk ? last_error() : session().failure());
}
CUDA_EXPORT const char* cudaGetErrorName(int number) {
  asked_about(static_cast<Status>(number));
  const ErrorName* error = error_named(number);
  return error == nullptr ? "unrecognized error code" : error->name;
}
CUDA_EXPORT const char* cudaGetErrorString(int number) {
  asked_about(static_cast<Status>(number));
  const ErrorName* error = error_named(number);
  if (error == nullptr) return "unrecognized error code";
  return error->text == nullptr ? error->name : error->text;
}

CUDA_EXPORT Status cudaGetDeviceCount(int* count) {
  return guarded([&] {
    if (count == nullptr) return kInvalidValue;
    const Status status = session().ready();
    *count = status == kOk ? session().device().count : 0;
    return status;
  });
}
GUARDED(cudaSetDevice, (int device), set_device(device))
GUARDED(cudaInitDevice, (int device, unsigned, unsigned), check(device))
GUARDED(cudaGetDevice, (int* device), hand_out(client::current_device(), device))
CUDA_EXPORT Status cudaSetDeviceFlags(unsigned) { return kOk; }
CUDA_EXPORT Status cudaGetDeviceFlags(unsigned* flags) { return remember(hand_out(0, flags)); }
CUDA_EXPORT Status cudaSetValidDevices(int*, int) { return kOk; }
CUDA_EXPORT Status cudaChooseDevice(int* device, const void*) { return cudaGetDevice(device); }
GUARDED(cudaDeviceSynchronize, (), session().streams.synchronise())
CUDA_EXPORT Status cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
CUDA_EXPORT Status cudaDeviceReset() {
  const Status status = guarded([] {
    const bool alone = session().device().count == 1;  // else what other devices have would go, too
    return alone ? session().reset() : session().streams.synchronise();
  });
  last_error() = kOk;
  return status;
}
CUDA_EXPORT Status cudaThreadExit() { return cudaDeviceReset(); }

CUDA_EXPORT Status cudaGetDeviceProperties(Properties* properties, int device) {
  return guarded([&] {
    if (properties == nullptr) return kInvalidValue;
    if (const Status there = check(device); there != kOk) return there;
    Status status = kOk;
    const client::Device* known = device_snapshot(status);
    if (known == nullptr) return status;
    fill(*properties, *known, device);
    const auto memory = session().memory.state();
    if (memory) properties->totalGlobalMem = memory->total;
    return kOk;
  });
}
#if PARTITA_CUDART == 12
CUDA_EXPORT Status cudaGetDeviceProperties_v2(Properties* properties, int device) {
  return cudaGetDeviceProperties(properties, device);
}
#endif
CUDA_EXPORT Status cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return guarded([&] {
    if (value == nullptr || attribute <= 0) return kInvalidValue;
    if (const Status there = check(device); there != kOk) return there;
    Status status = kOk;
    const client::Device* known = device_snapshot(status);
    if (known == nullptr) return status;
    *value = known->attribute_on(static_cast<std::uint32_t>(attribute), device);
    return kOk;
  });
}
CUDA_EXPORT Status cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return guarded([&] {
    if (text == nullptr || length <= 0) return kInvalidValue;
    if (const Status there = check(device); there != kOk) return there;
    Status status = kOk;
    const client::Device* known = device_snapshot(status);
    if (known == nullptr) return status;
    constexpr std::uint32_t kBus = 33, kDevice = 34, kDomain = 50;
    const auto part = [&](std::uint32_t which) {
      return static_cast<unsigned>(known->attribute_on(which, device));
    };
    std::snprintf(text, static_cast<std::size_t>(length), "%04X:%02X:%02X.0", part(kDomain),
                  part(kBus), part(kDevice));
    return kOk;
  });
}
CUDA_EXPORT Status cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return guarded([&] {
    if (device == nullptr || text == nullptr) return kInvalidValue;
    char own[32] = {};
    for (int i = 0; check(i) == kOk; ++i) {
      if (const Status told = cudaDeviceGetPCIBusId(own, sizeof own, i); told != kOk) return told;
      if (std::string_view(own).ends_with(text)) return *device = i, kOk;
    }
    return kInvalidValue;
  });
}
CUDA_EXPORT Status cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return guarded([&] {
    if (can == nullptr) return kInvalidValue;
    for (const int one : {device, peer})
      if (const Status status = check(one); status != kOk) return status;
    *can = device != peer ? 1 : 0;
    return kOk;
  });
}
GUARDED(cudaDeviceEnablePeerAccess, (int peer, unsigned flags),
        flags != 0 ? kInvalidValue : change_peer(peer, true))
GUARDED(cudaDeviceDisablePeerAccess, (int peer), change_peer(peer, false))
CUDA_EXPORT Status cudaDeviceGetP2PAttribute(int* value, int attribute, int from, int to) {
  return guarded([&] {
    constexpr int kRank = 1, kArrays = 4;  // access and atomics are between them
    if (value == nullptr || attribute < kRank || attribute > kArrays) return kInvalidValue;
    for (const int one : {from, to})
      if (const Status status = check(one); status != kOk) return status;
    if (from == to) return kInvalidDevice;
    *value = attribute != kRank && attribute != kArrays ? 1 : 0;
    return kOk;
  });
}

// Limits can be set and are then told; but for the heap of malloc in kernels they change nothing.
constexpr int kMallocHeapSize = 2;
static std::size_t limits[8] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};
CUDA_EXPORT Status cudaDeviceGetLimit(std::size_t* value, int which) {
  if (value == nullptr || which < 0 || which >= 8) return remember(kInvalidValue);
  *value = which == kMallocHeapSize ? session().memory.heap_limit() : limits[which];
  return kOk;
}
CUDA_EXPORT Status cudaDeviceSetLimit(int which, std::size_t value) {
  if (which < 0 || which >= 8) return remember(kInvalidValue);
  if (which == kMallocHeapSize) return guarded([&] { return session().memory.limit_heap(value); });
  limits[which] = value;
  return kOk;
}
CUDA_EXPORT Status cudaDeviceGetCacheConfig(int* config) { return remember(hand_out(0, config)); }
CUDA_EXPORT Status cudaDeviceSetCacheConfig(int) { return kOk; }
CUDA_EXPORT Status cudaDeviceGetSharedMemConfig(int* config) {
  return cudaDeviceGetCacheConfig(config);
}
CUDA_EXPORT Status cudaDeviceSetSharedMemConfig(int) { return kOk; }
CUDA_EXPORT Status cudaCtxResetPersistingL2Cache() { return kOk; }
CUDA_EXPORT Status cudaProfilerStart() { return kOk; }
CUDA_EXPORT Status cudaProfilerStop() { return kOk; }

CUDA_EXPORT Status cudaRuntimeGetVersion(int* version) {
  return remember(hand_out(kRuntimeVersion, version));
}
CUDA_EXPORT Status cudaDriverGetVersion(int* version) {
  return guarded([&] {
    if (version == nullptr) return kInvalidValue;
    Status status = kOk;
    const client::Device* known = device_snapshot(status);
    *version = known == nullptr ? 0 : static_cast<int>(known->driver_version);
    return kOk;
  });
}

}  // namespace partita::remote::shim
