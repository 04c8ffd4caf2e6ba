// Memory: allocation, copies, sets, symbols, pools, pointers.

#include "copies.h"
#include "sharing.h"
#include "textures.h"

namespace partita::remote::shim {
namespace {

using client::kInvalidValue;
using client::kOk;

Status allocate(void** memory, std::size_t bytes) {
  if (memory == nullptr) return kInvalidValue;
  *memory = nullptr;
  if (bytes == 0) return session().ready();
  return give(session().memory.allocate(bytes), memory);
}

Status allocate_on(void** memory, std::size_t bytes, void* stream) {
  if (memory == nullptr) return kInvalidValue;
  *memory = nullptr;
  if (bytes == 0) return session().ready();
  return give(session().memory.allocate_on(number_of(stream), bytes), memory);
}

Status allocate_host(void** memory, std::size_t bytes) {
  if (memory == nullptr) return kInvalidValue;
  const auto got = session().host.allocate(bytes);
  if (!got) return got.error();
  *memory = *got;
  return kOk;
}

Status copy_to_symbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                      int kind, void* stream) {
  const auto block = symbol_of(symbol);
  if (!block) return block.error();
  if (offset > block->bytes || bytes > block->bytes - offset) return kInvalidValue;
  if (kind != kHostToDevice && kind != kDeviceToDevice && kind != kByAddress)
    return client::kInvalidDirection;
  return copy({handle_of(block->address + offset), from, bytes, kind}, stream, true);
}

Status copy_from_symbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                        int kind, void* stream, bool later) {
  const auto block = symbol_of(symbol);
  if (!block) return block.error();
  if (offset > block->bytes || bytes > block->bytes - offset) return kInvalidValue;
  if (kind != kDeviceToHost && kind != kDeviceToDevice && kind != kByAddress)
    return client::kInvalidDirection;
  return copy({to, handle_of(block->address + offset), bytes, kind}, stream, later);
}

Status set_bytes(void* to, int value, std::size_t count, void* stream, bool later,
                 std::size_t pitch = 0, std::size_t rows = 1) {
  return set_rows(
      {to, rows > 1 ? pitch : count, static_cast<std::uint32_t>(value & 0xff), 1, count, rows},
      stream, later);
}

// Slices in which there is something.
std::size_t slices_of(const Place3& extent) {
  return extent.x == 0 || extent.y == 0 ? 0 : extent.z;
}

Status set_space(const Pitched& to, int value, const Place3& extent, void* stream, bool later) {
  Status status = session().ready();
  for (std::size_t z = 0; z < slices_of(extent) && status == kOk; ++z)
    status = set_bytes(static_cast<std::byte*>(to.memory) + z * to.height * to.pitch, value,
                       extent.x, stream, later, to.pitch, extent.y);
  return status;
}

Status copy_space(const Copy3& c, void* stream, bool later) {
  if (c.from_array != nullptr || c.to_array != nullptr)
    return copy_space_with_arrays(c, stream, later);
  Status status = session().ready();
  for (std::size_t z = 0; z < slices_of(c.extent) && status == kOk; ++z) {
    const auto at = [z](const Pitched& memory, const Place3& place) {
      return static_cast<std::byte*>(memory.memory) +
             ((place.z + z) * memory.height + place.y) * memory.pitch + place.x;
    };
    status = copy_rows({at(c.to, c.to_place), c.to.pitch, at(c.from, c.from_place), c.from.pitch,
                        c.extent.x, c.extent.y, c.kind},
                       stream, later);
  }
  return status;
}

}  // namespace

GUARDED(cudaMalloc, (void** memory, std::size_t bytes), allocate(memory, bytes))
GUARDED(cudaMallocManaged, (void** memory, std::size_t bytes, unsigned flags),
        allocate_managed(memory, bytes, flags))
// Where to, and how, follows in the arguments.
#define NOTED(name)                                                \
  CUDA_EXPORT Status name(const void* memory, std::size_t bytes) { \
    return guarded([&] { return noted(memory, bytes); });          \
  }
NOTED(cudaMemPrefetchAsync)
NOTED(cudaMemPrefetchAsync_ptsz)
NOTED(cudaMemPrefetchAsync_v2)
NOTED(cudaMemAdvise)
NOTED(cudaMemAdvise_v2)
#undef NOTED
STREAM_FUNCTION(cudaStreamAttachMemAsync, _ptsz,
                ([[maybe_unused]] void* stream, void* memory, std::size_t, unsigned flags),
                { return attach(memory, flags); })
GUARDED(cudaFree, (void* memory), session().memory.release(number_of(memory)))
CUDA_EXPORT Status cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width,
                                   std::size_t height) {
  return guarded([&] {
    if (pitch == nullptr) return kInvalidValue;
    return allocate(memory, pitched(width, height, *pitch));
  });
}
CUDA_EXPORT Status cudaMalloc3D(Pitched* made, Place3 extent) {
  return guarded([&] {
    if (made == nullptr) return kInvalidValue;
    std::size_t rows = 0;
    *made = {nullptr, 0, extent.x, extent.y};
    if (__builtin_mul_overflow(extent.y, extent.z, &rows)) return client::kMemoryAllocation;
    return allocate(&made->memory, pitched(extent.x, rows, made->pitch));
  });
}
STREAM_FUNCTION(cudaMallocAsync, _ptsz, (void** memory, std::size_t bytes, void* stream),
                { return allocate_on(memory, bytes, stream); })
STREAM_FUNCTION(cudaFreeAsync, _ptsz, (void* memory, void* stream),
                { return session().memory.release_on(number_of(stream), number_of(memory)); })
GUARDED(cudaMallocHost, (void** memory, std::size_t bytes), allocate_host(memory, bytes))
GUARDED(cudaHostAlloc, (void** memory, std::size_t bytes, unsigned), allocate_host(memory, bytes))
GUARDED(cudaFreeHost, (void* memory), session().host.release(memory))
GUARDED(cudaHostRegister, (void* memory, std::size_t bytes, unsigned),
        session().host.enter(memory, bytes))
GUARDED(cudaHostUnregister, (void* memory), session().host.leave(memory))
GUARDED(cudaHostGetDevicePointer, (void** device, void* memory, unsigned),
        give(session().host.device_address(memory), device))
CUDA_EXPORT Status cudaHostGetFlags(unsigned* flags, void* memory) {
  return guarded([&] {
    if (flags == nullptr || !session().host.is_pinned(memory, 1)) return kInvalidValue;
    *flags = 0;
    return kOk;
  });
}
GUARDED(cudaMemGetInfo, (std::size_t * free, std::size_t* total), tell_memory(free, total))

// --- copies --------------------------------------------------------------------------------

EITHER_FUNCTION(cudaMemcpy, (void* to, const void* from, std::size_t bytes, int kind),
                copy({to, from, bytes, kind}, stream, later))
GUARDED(cudaMemcpyPeer, (void* to, int, const void* from, int, std::size_t bytes),
        copy({to, from, bytes, kByAddress}, nullptr, false))
GUARDED(cudaMemcpyPeerAsync,
        (void* to, int, const void* from, int, std::size_t bytes, void* stream),
        copy({to, from, bytes, kByAddress}, stream, true))
EITHER_FUNCTION(cudaMemcpy2D,
                (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t width, std::size_t height, int kind),
                copy_rows({to, to_pitch, from, from_pitch, width, height, kind}, stream, later))
EITHER_FUNCTION(cudaMemcpy3D, (const Copy3* copy),
                copy == nullptr ? kInvalidValue : copy_space(*copy, stream, later))
EITHER_FUNCTION(cudaMemcpyToSymbol,
                (const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                 int kind),
                copy_to_symbol(symbol, from, bytes, offset, kind, stream))
EITHER_FUNCTION(cudaMemcpyFromSymbol,
                (void* to, const void* symbol, std::size_t bytes, std::size_t offset, int kind),
                copy_from_symbol(to, symbol, bytes, offset, kind, stream, later))
CUDA_EXPORT Status cudaGetSymbolAddress(void** address, const void* symbol) {
  return guarded([&] {
    const auto block = symbol_of(symbol);
    if (!block) return block.error();
    return hand_out(handle_of(block->address), address);
  });
}
CUDA_EXPORT Status cudaGetSymbolSize(std::size_t* size, const void* symbol) {
  return guarded([&] {
    const auto block = symbol_of(symbol);
    if (!block) return block.error();
    return hand_out(block->bytes, size);
  });
}

// --- sets ----------------------------------------------------------------------------------

EITHER_FUNCTION(cudaMemset, (void* to, int value, std::size_t count),
                set_bytes(to, value, count, stream, later))
EITHER_FUNCTION(cudaMemset2D,
                (void* to, std::size_t pitch, int value, std::size_t width, std::size_t height),
                set_bytes(to, value, width, stream, later, pitch, height))
EITHER_FUNCTION(cudaMemset3D, (Pitched to, int value, Place3 extent),
                set_space(to, value, extent, stream, later))

// --- pointers and pools --------------------------------------------------------------------

CUDA_EXPORT Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  return guarded([&] {
    if (attributes == nullptr) return kInvalidValue;
    if (const Status status = session().ready(); status != kOk) return status;
    enum Type { kUnregistered, kHost, kDevice, kManaged };
    *attributes = {};
    attributes->device = session().memory.device_of(number_of(pointer));
    if (session().memory.block_of(number_of(pointer))) {
      const bool managed = session().managed.block_at(number_of(pointer)).has_value();
      attributes->type = managed ? kManaged : kDevice;
      attributes->device_pointer = const_cast<void*>(pointer);
      if (managed) attributes->host_pointer = const_cast<void*>(pointer);
    } else if (session().host.is_pinned(pointer, 1)) {
      attributes->type = kHost;
      attributes->host_pointer = const_cast<void*>(pointer);
      if (session().host.has_one_address(pointer))
        attributes->device_pointer = const_cast<void*>(pointer);
    } else {
      attributes->type = kUnregistered;
      attributes->device = -2;
      attributes->host_pointer = const_cast<void*>(pointer);
    }
    return kOk;
  });
}

// All memory is the session's; a pool is a name for it.
static char pools[client::kMostDevices];
CUDA_EXPORT Status cudaDeviceGetDefaultMemPool(void** pool, int device) {
  return guarded([&] {
    if (const Status status = session().ready(); status != kOk) return status;
    if (device < 0 || device >= session().device().count) return client::kInvalidDevice;
    return hand_out(&pools[device], pool);
  });
}
CUDA_EXPORT Status cudaDeviceGetMemPool(void** pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}
CUDA_EXPORT Status cudaDeviceSetMemPool(int, void*) { return kOk; }
CUDA_EXPORT Status cudaMemPoolTrimTo(void*, std::size_t) { return kOk; }
CUDA_EXPORT Status cudaMemPoolSetAttribute(void*, int, void*) { return kOk; }
CUDA_EXPORT Status cudaMemPoolSetAccess(void*, const void*, std::size_t) { return kOk; }
CUDA_EXPORT Status cudaMemPoolGetAttribute(void*, int attribute, void* value) {
  return guarded([&] {
    constexpr int kReleaseThreshold = 4, kReservedNow = 5, kReservedMost = 6, kUsedNow = 7,
                  kUsedMost = 8;
    if (value == nullptr || attribute < 1 || attribute > kUsedMost) return kInvalidValue;
    if (attribute < kReleaseThreshold) {
      *static_cast<int*>(value) = 1;
      return kOk;
    }
    const auto state = session().memory.state();
    if (!state) return state.error();
    const bool used = attribute == kReservedNow || attribute == kReservedMost ||
                      attribute == kUsedNow || attribute == kUsedMost;
    *static_cast<std::uint64_t*>(value) = used ? state->total - state->free : 0;
    return kOk;
  });
}
CUDA_EXPORT Status cudaMemPoolCreate(void** pool, const PoolProperties* properties) {
  if (pool == nullptr) return remember(kInvalidValue);
  if (properties != nullptr && properties->handle_types != 0)
    return remember(create_shared_pool(pool));
  *pool = &pools[client::current_device()];
  return kOk;
}

}  // namespace partita::remote::shim
