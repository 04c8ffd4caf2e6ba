// libcuda: start, devices, contexts, errors. One context of each device that every thread has:
// cuCtxCreate gives another name for it.
#include <atomic>
#include <cstdio>
#include <vector>

#include "driver.h"

namespace partita::remote::shim {
namespace {

constexpr Status kNotInitialised = 3;
bool initialised = false;  // cuInit was called

struct Context {
  unsigned flags = 0;
  int device = 0;
};
Context* primary(int device) {
  static Context all[client::kMostDevices];
  all[device].device = device;
  return &all[device];
}
thread_local std::vector<Context*> contexts;  // the current one last

// A program's runtime starts the driver and makes the primary context current.
bool has_runtime() { return session().kernels.modules().has_registered(); }
// cuInit, or any function of the runtime, has been called.
bool started() { return initialised || session().core.is_ready || has_runtime(); }

Context* current() {
  if (!contexts.empty()) return contexts.back();
  return has_runtime() ? primary(client::current_device()) : nullptr;
}

Status changed() {
  if (!contexts.empty() && contexts.back() != nullptr)
    client::current_device() = contexts.back()->device;
  return kOk;
}

Status check(int device) {
  if (!started()) return kNotInitialised;
  if (const Status status = session().ready(); status != kOk) return status;
  return device >= 0 && device < session().device().count ? kOk : client::kInvalidDevice;
}

struct DriverError {
  int number;
  const char* name;
  const char* text;
};
constexpr DriverError kDriverErrors[] = {
#include "driver_errors.inc"
};

const DriverError* driver_error(int number) {
  for (const DriverError& error : kDriverErrors)
    if (error.number == number) return &error;
  return nullptr;
}

Status set_current(void* context) {
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(static_cast<Context*>(context));
  return changed();
}

Status new_context(void** context, unsigned flags, int device) {
  if (const Status status = check(device); status != kOk) return status;
  if (context == nullptr) return kInvalidValue;
  auto* made = new Context{flags, device};  // its address may be used after cuCtxDestroy
  contexts.push_back(made);
  *context = made;
  return changed();
}

}  // namespace

CUDA_EXPORT Status cuInit(unsigned flags) {
  return guarded([&] {
    if (flags != 0) return kInvalidValue;
    const Status status = session().ready();
    initialised = status == kOk;
    return status;
  });
}
CUDA_EXPORT Status cuDriverGetVersion(int* version) {
  return guarded([&] {
    if (version == nullptr) return kInvalidValue;
    const Status status = session().ready();
    *version = status == kOk ? static_cast<int>(session().device().driver_version) : 0;
    return status;
  });
}
CUDA_EXPORT Status cuGetErrorName(int number, const char** name) {
  asked_about(static_cast<Status>(number));
  const DriverError* error = driver_error(number);
  if (name == nullptr) return kInvalidValue;
  *name = error == nullptr ? nullptr : error->name;
  return error == nullptr ? kInvalidValue : kOk;
}
CUDA_EXPORT Status cuGetErrorString(int number, const char** text) {
  asked_about(static_cast<Status>(number));
  const DriverError* error = driver_error(number);
  if (text == nullptr) return kInvalidValue;
  *text = error == nullptr ? nullptr : error->text;
  return error == nullptr ? kInvalidValue : kOk;
}

// --- devices -----------------------------------------------------------------------------------

CUDA_EXPORT Status cuDeviceGetCount(int* count) {
  return guarded([&] {
    if (count == nullptr) return kInvalidValue;
    if (!started()) return kNotInitialised;
    *count = session().device().count;
    return kOk;
  });
}
CUDA_EXPORT Status cuDeviceGet(int* device, int ordinal) {
  return guarded([&] {
    if (device == nullptr) return kInvalidValue;
    *device = ordinal;
    return check(ordinal);
  });
}
CUDA_EXPORT Status cuDeviceGetName(char* name, int length, int device) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    if (name == nullptr || length <= 0) return kInvalidValue;
    std::snprintf(name, static_cast<std::size_t>(length), "%s", session().device().name.c_str());
    return kOk;
  });
}
CUDA_EXPORT Status cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    if (uuid == nullptr) return kInvalidValue;
    const auto own = session().device().uuid_on(device);
    std::memcpy(uuid, own.data(), own.size());
    return kOk;
  });
}
CUDA_EXPORT Status cuDeviceGetUuid(unsigned char* uuid, int device) {
  return cuDeviceGetUuid_v2(uuid, device);
}
CUDA_EXPORT Status cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    if (bytes == nullptr) return kInvalidValue;
    const auto state = session().memory.state();
    if (!state) return state.error();
    *bytes = state->total;
    return kOk;
  });
}
CUDA_EXPORT Status cuDeviceGetAttribute(int* value, int attribute, int device) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    if (value == nullptr || attribute <= 0) return kInvalidValue;
    *value = session().device().attribute_on(static_cast<std::uint32_t>(attribute), device);
    return kOk;
  });
}
CUDA_EXPORT Status cuDeviceComputeCapability(int* major, int* minor, int device) {
  constexpr int kMajor = 75, kMinor = 76;
  const Status status = cuDeviceGetAttribute(major, kMajor, device);
  return status != kOk ? status : cuDeviceGetAttribute(minor, kMinor, device);
}
CUDA_EXPORT Status cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return guarded([&] {
    if (can == nullptr) return kInvalidValue;
    for (const int one : {device, peer})
      if (const Status status = check(one); status != kOk) return status;
    *can = device != peer ? 1 : 0;
    return kOk;
  });
}
// All memory is one, so nothing is to be done.
CUDA_EXPORT Status cuCtxEnablePeerAccess(void* context, unsigned flags) {
  return guarded([&] {
    if (context == nullptr || current() == nullptr) return client::kInvalidContext;
    if (flags != 0) return kInvalidValue;
    return static_cast<Context*>(context)->device != current()->device ? kOk
                                                                       : client::kInvalidDevice;
  });
}
CUDA_EXPORT Status cuCtxDisablePeerAccess(void* context) {
  return cuCtxEnablePeerAccess(context, 0);
}

// --- contexts ----------------------------------------------------------------------------------

CUDA_EXPORT Status cuDevicePrimaryCtxRetain(void** context, int device) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    return hand_out(primary(device), context);
  });
}
CUDA_EXPORT Status cuDevicePrimaryCtxRelease_v2(int) { return kOk; }
CUDA_EXPORT Status cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    primary(device)->flags = flags;
    return kOk;
  });
}
CUDA_EXPORT Status cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return guarded([&] {
    if (const Status status = check(device); status != kOk) return status;
    if (flags != nullptr) *flags = primary(device)->flags;
    if (active != nullptr) *active = 1;
    return kOk;
  });
}
GUARDED(cuDevicePrimaryCtxReset_v2, (int), session().reset())
GUARDED(cuCtxCreate_v2, (void** context, unsigned flags, int device),
        new_context(context, flags, device))
CUDA_EXPORT Status cuCtxCreate_v3(void** context, void*, int count, unsigned flags, int device) {
  if (count != 0) return unsupported("cuCtxCreate with an affinity");
  return cuCtxCreate_v2(context, flags, device);
}
CUDA_EXPORT Status cuCtxCreate_v4(void** context, void* parameters, unsigned flags, int device) {
  // An affinity, how many of its kind, a context of graphics: none of them is asked for.
  struct {
    const void* affinity;
    std::uint64_t count;
    const void* graphics;
  } asked = {};
  if (parameters != nullptr) std::memcpy(&asked, parameters, sizeof asked);
  if (asked.affinity != nullptr || asked.graphics != nullptr)
    return unsupported("cuCtxCreate with an affinity or graphics");
  return cuCtxCreate_v2(context, flags, device);
}
CUDA_EXPORT Status cuCtxDestroy_v2(void* context) {
  return guarded([&] {
    std::erase(contexts, static_cast<Context*>(context));
    return context == nullptr ? client::kInvalidContext : session().streams.synchronise();
  });
}
CUDA_EXPORT Status cuCtxPushCurrent_v2(void* context) {
  return guarded([&] {
    contexts.push_back(static_cast<Context*>(context));
    return changed();
  });
}
CUDA_EXPORT Status cuCtxPopCurrent_v2(void** context) {
  return guarded([&] {
    if (contexts.empty()) return client::kInvalidContext;
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    return changed();
  });
}
// What they were called before there was a version of them, by programs that look names up.
CUDA_EXPORT Status cuCtxDestroy(void* context) { return cuCtxDestroy_v2(context); }
CUDA_EXPORT Status cuCtxPushCurrent(void* context) { return cuCtxPushCurrent_v2(context); }
CUDA_EXPORT Status cuCtxPopCurrent(void** context) { return cuCtxPopCurrent_v2(context); }
GUARDED(cuCtxSetCurrent, (void* context), set_current(context))
CUDA_EXPORT Status cuCtxGetCurrent(void** context) { return hand_out(current(), context); }
CUDA_EXPORT Status cuCtxGetDevice(int* device) {
  if (device == nullptr) return kInvalidValue;
  *device = current() == nullptr ? 0 : current()->device;
  return current() == nullptr ? client::kInvalidContext : kOk;
}
CUDA_EXPORT Status cuCtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return kInvalidValue;
  *flags = current() == nullptr ? 0 : current()->flags;
  return current() == nullptr ? client::kInvalidContext : kOk;
}
CUDA_EXPORT Status cuCtxGetApiVersion(void*, unsigned* version) { return hand_out(3020, version); }
// A program of the driver has no last error: this is how it asks what came of its kernels.
CUDA_EXPORT Status cuCtxSynchronize() {
  return asked_about(guarded([] { return session().streams.synchronise(); }));
}
constexpr int kMallocHeapSize = 2;  // CUlimit; the others change nothing
CUDA_EXPORT Status cuCtxGetLimit(std::size_t* value, int which) {
  return hand_out(which == kMallocHeapSize ? session().memory.heap_limit() : 0, value);
}
CUDA_EXPORT Status cuCtxSetLimit(int which, std::size_t value) {
  if (which != kMallocHeapSize) return kOk;
  return guarded([&] { return session().memory.limit_heap(value); });
}
CUDA_EXPORT Status cuCtxSetCacheConfig(int) { return kOk; }
CUDA_EXPORT Status cuCtxGetCacheConfig(int* config) { return hand_out(0, config); }
CUDA_EXPORT Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kOk;
}
CUDA_EXPORT Status cuProfilerStart() { return kOk; }
CUDA_EXPORT Status cuProfilerStop() { return kOk; }

// NVIDIA's runtime asks here for tables that are not public. None is given; the runtime that is
// built into a program then ends with an error, and this says why.
CUDA_EXPORT Status cuGetExportTable(const void** table, const unsigned char* id) {
  if (table != nullptr) *table = nullptr;
  constexpr unsigned char kRuntime[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                          0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
  static std::atomic<bool> said = false;
  if (id != nullptr && std::memcmp(id, kRuntime, sizeof kRuntime) == 0 && !said.exchange(true)) {
    std::fputs(
        "partita remote: this program embeds NVIDIA's static CUDA runtime; relink with"
        " `-cudart shared`\n",
        stderr);
  }
  return client::kNotSupported;
}

}  // namespace partita::remote::shim
