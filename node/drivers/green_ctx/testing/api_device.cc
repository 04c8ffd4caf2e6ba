// The library, devices, primary contexts, memory.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "drivers/green_ctx/testing/api.h"
#include "drivers/green_ctx/testing/world.h"

namespace partita::fake_cuda {
namespace {

using Needs = Call::Needs;

bool no_device(World& world, int device) { return device < 0 || device >= world.config.devices; }

constexpr std::size_t kLazyBytes = std::size_t{64} << 20;  // larger blocks come as zeros

Return take_memory(World& world, std::size_t bytes, bool on_host, std::uint64_t& address) {
  if (bytes == 0) return Return::invalid_value;
  if (!on_host && world.taken() + bytes > world.config.memory) return Return::out_of_memory;
  device::CodeEngine* const engine = on_host ? nullptr : device::code_engine;
  const bool lazy = bytes >= kLazyBytes;
  address =
      engine ? engine->allocate(bytes)
             : reinterpret_cast<std::uint64_t>(lazy ? std::calloc(1, bytes) : std::malloc(bytes));
  if (address == 0) return Return::out_of_memory;
  if (!lazy) std::memset(World::at(address, bytes), 0xA5, bytes);
  world.blocks[address] = {.bytes = bytes, .on_host = on_host, .zeroed = lazy};
  return Return::success;
}

Return free_memory(World& world, std::uint64_t address, bool on_host) {
  const auto block = world.blocks.find(address);
  if (block == world.blocks.end() || block->second.on_host != on_host) return Return::invalid_value;
  world.blocks.erase(block);
  if (device::code_engine && !on_host)
    device::code_engine->release(address);
  else
    std::free(reinterpret_cast<void*>(address));
  return Return::success;
}

}  // namespace

extern "C" {

Return cuGetErrorName(Return code, const char** text) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "FAKE_ERROR_%d", static_cast<int>(code));
  *text = name;
  return Return::success;
}

Return cuGetErrorString(Return code, const char** text) {
  *text = code == Return::illegal_address ? "an illegal memory access was encountered" : nullptr;
  return *text ? Return::success : Return::invalid_value;
}

Return cuInit(unsigned flags) {
  Call call("cuInit", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  if (flags != 0) return Return::invalid_value;
  if (call->config.devices == 0) return Return::no_device;
  call->initialised = true;
  return Return::success;
}

Return cuDriverGetVersion(int* version) {
  Call call("cuDriverGetVersion", Needs::nothing);
  *version = call->config.version;
  return call.code();
}

Return cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount", Needs::initialised);
  *count = call->config.devices;
  return call.code();
}

Return cuDeviceGet(abi::Device* device, int ordinal) {
  Call call("cuDeviceGet", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (no_device(*call, ordinal)) return Return::invalid_device;
  *device = ordinal;
  return Return::success;
}

Return cuDeviceGetName(char* name, int length, abi::Device device) {
  Call call("cuDeviceGetName", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (no_device(*call, device) || length < 1) return Return::invalid_value;
  std::snprintf(name, static_cast<std::size_t>(length), "%s", call->config.name);
  return Return::success;
}

Return cuDeviceGetUuid_v2(abi::Uuid* uuid, abi::Device device) {
  Call call("cuDeviceGetUuid", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (no_device(*call, device)) return Return::invalid_device;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xA0 + 16 * device + i);
  return Return::success;
}

Return cuDeviceGetAttribute(int* value, int attribute, abi::Device device) {
  Call call("cuDeviceGetAttribute", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (no_device(*call, device)) return Return::invalid_device;
  if (attribute != 75 && attribute != 16) return Return::invalid_value;
  *value = attribute == 75 ? call->config.major : call->config.sms;
  return Return::success;
}

Return cuDevicePrimaryCtxRetain(abi::Context* context, abi::Device device) {
  Call call("cuDevicePrimaryCtxRetain", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (no_device(*call, device)) return Return::invalid_device;
  if (call->primary[device]++ == 0) call->contexts[device] = call->handle<abi::Context>();
  *context = call->contexts[device];
  return Return::success;
}

Return cuDevicePrimaryCtxRelease_v2(abi::Device device) {
  Call call("cuDevicePrimaryCtxRelease", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  if (no_device(*call, device) || call->primary[device] == 0) return Return::invalid_context;
  --call->primary[device];
  return Return::success;
}

Return cuCtxPushCurrent_v2(abi::Context context) {
  Call call("cuCtxPushCurrent", Needs::initialised);
  if (call.code() == Return::not_initialized) return call.code();
  const bool primary = std::ranges::any_of(call->contexts, [&](const auto& known) {
    return known.second == context && call->primary[known.first] > 0;
  });
  const bool green = std::ranges::any_of(
      call->greens, [&](const auto& known) { return known.second.context == context; });
  if (!primary && !green) return Return::invalid_context;
  call->green_currents += green ? 1 : 0;
  current_contexts().push_back(context);
  return Return::success;
}

Return cuCtxPopCurrent_v2(abi::Context* context) {
  Call call("cuCtxPopCurrent", Needs::nothing);
  if (current_contexts().empty()) return Return::invalid_context;
  *context = current_contexts().back();
  current_contexts().pop_back();
  return Return::success;
}

Return cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Call call("cuMemGetInfo", Needs::context);
  if (call.code() != Return::success) return call.code();
  *total = call->config.memory;
  *free = *total - call->taken();
  return Return::success;
}

Return cuMemAlloc_v2(abi::DevicePointer* pointer, std::size_t bytes) {
  Call call("cuMemAlloc", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::uint64_t address = 0;
  const Return code = take_memory(*call, bytes, false, address);
  *pointer = address;
  return code;
}

Return cuMemFree_v2(abi::DevicePointer pointer) {
  Call call("cuMemFree", Needs::context);
  return call.code() == Return::success ? free_memory(*call, pointer, false) : call.code();
}

Return cuMemsetD8_v2(abi::DevicePointer pointer, unsigned char value, std::size_t bytes) {
  Call call("cuMemsetD8", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (!call->holds(pointer, bytes)) return Return::invalid_value;
  const auto block = call->blocks.find(pointer);
  if (value == 0 && block != call->blocks.end() && block->second.zeroed) return Return::success;
  std::memset(World::at(pointer, bytes), value, bytes);
  return Return::success;
}

Return cuMemcpyDtoH_v2(void* to, abi::DevicePointer from, std::size_t bytes) {
  Call call("cuMemcpyDtoH", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (!call->holds(from, bytes)) return Return::invalid_value;
  // Word by word: kernels may write beside it.
  auto* words = static_cast<std::uint64_t*>(to);
  auto* const all = static_cast<std::uint64_t*>(World::at(from, bytes));
  for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = std::atomic_ref(all[i]).load();
  return Return::success;
}

Return cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  Call call("cuMemHostAlloc", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (flags > 7) return Return::invalid_value;
  std::uint64_t address = 0;
  const Return code = take_memory(*call, bytes, true, address);
  if (code == Return::success) call->blocks[address].mapped = (flags & abi::kHostDeviceMap) != 0;
  *memory = reinterpret_cast<void*>(address);
  return code;
}

Return cuMemFreeHost(void* memory) {
  Call call("cuMemFreeHost", Needs::context);
  if (call.code() != Return::success) return call.code();
  return free_memory(*call, reinterpret_cast<std::uint64_t>(memory), true);
}

Return cuMemHostGetDevicePointer_v2(abi::DevicePointer* pointer, void* memory, unsigned flags) {
  Call call("cuMemHostGetDevicePointer", Needs::context);
  if (call.code() != Return::success) return call.code();
  const auto block = call->blocks.find(reinterpret_cast<std::uint64_t>(memory));
  if (flags != 0 || block == call->blocks.end() || !block->second.mapped)
    return Return::invalid_value;
  *pointer = block->first;
  return Return::success;
}
}

}  // namespace partita::fake_cuda
