// libcuda: memory, copies, sets.

#include "driver.h"
#include "textures.h"

namespace partita::remote::shim {
namespace {

void* place(DevicePtr address) { return handle_of(address); }

Status allocate(DevicePtr* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  return give(session().memory.allocate(bytes), memory);
}

Status allocate_host(void** memory, std::size_t bytes) {
  const auto got = session().host.allocate(bytes);
  if (!got) return got.error();
  if (memory == nullptr) return kInvalidValue;
  *memory = *got;
  return kOk;
}

// One side is an array.
Status copy_2d_array(const DriverCopy2D& c, const void* from, const void* to, void* stream,
                     bool later) {
  constexpr int kOfArrays = 3;  // CU_MEMORYTYPE_ARRAY
  if (c.from_type == c.to_type) return unsupported("cuMemcpy2D (both sides are arrays)");
  const bool into = c.to_type == kOfArrays;
  const std::size_t pitch = into ? c.from_pitch : c.to_pitch, width = pitch == 0 ? c.width : pitch;
  const auto* outside = static_cast<const std::byte*>(into ? from : to);
  outside += (into ? c.from_y : c.to_y) * width + (into ? c.from_x : c.to_x);
  return copy_with_array(into ? c.to_array : c.from_array, into ? c.to_x : c.from_x,
                         into ? c.to_y : c.from_y, const_cast<std::byte*>(outside), width, c.width,
                         c.height, kByAddress, stream, later, into);
}

Status copy_2d(const DriverCopy2D* c, void* stream, bool later) {
  enum Type { kHost = 1, kDevice = 2, kOfArrays = 3 };
  if (c == nullptr) return kInvalidValue;
  const auto start = [](const void* at, std::size_t x, std::size_t y, std::size_t pitch) {
    return static_cast<const std::byte*>(at) + y * pitch + x;
  };
  const void* from = c->from_type == kHost ? c->from_host : place(c->from_device);
  const void* to = c->to_type == kHost ? c->to_host : place(c->to_device);
  if (c->from_type == kOfArrays || c->to_type == kOfArrays)
    return copy_2d_array(*c, from, to, stream, later);
  const std::size_t from_pitch = c->from_pitch == 0 ? c->width : c->from_pitch;
  const std::size_t to_pitch = c->to_pitch == 0 ? c->width : c->to_pitch;
  return copy_rows({.to = const_cast<std::byte*>(start(to, c->to_x, c->to_y, to_pitch)),
                    .to_pitch = to_pitch,
                    .from = start(from, c->from_x, c->from_y, from_pitch),
                    .from_pitch = from_pitch,
                    .width = c->width,
                    .rows = c->height,
                    .kind = kByAddress},
                   stream, later);
}

Status set(DevicePtr to, std::uint32_t value, std::uint32_t element, std::size_t count,
           void* stream, bool may_be_later) {
  return set_rows({place(to), 0, value, element, count, 1}, stream, may_be_later);
}

}  // namespace

CUDA_EXPORT Status cuMemAlloc_v2(DevicePtr* memory, std::size_t bytes) {
  return guarded([&] { return allocate(memory, bytes); });
}
CUDA_EXPORT Status cuMemAllocPitch_v2(DevicePtr* memory, std::size_t* pitch, std::size_t width,
                                      std::size_t height, unsigned) {
  return guarded([&] {
    if (pitch == nullptr) return kInvalidValue;
    return allocate(memory, pitched(width, height, *pitch));
  });
}
CUDA_EXPORT Status cuMemAllocManaged(DevicePtr* memory, std::size_t bytes, unsigned flags) {
  return guarded([&] {
    void* made = nullptr;
    const Status status = allocate_managed(memory == nullptr ? nullptr : &made, bytes, flags);
    if (status == kOk) *memory = number_of(made);
    return status;
  });
}
// Where to, and how, follows in the arguments.
#define NOTED(name)                                              \
  CUDA_EXPORT Status name(DevicePtr memory, std::size_t bytes) { \
    return guarded([&] { return noted(place(memory), bytes); }); \
  }
NOTED(cuMemPrefetchAsync)
NOTED(cuMemPrefetchAsync_ptsz)
NOTED(cuMemPrefetchAsync_v2)
NOTED(cuMemPrefetchAsync_v2_ptsz)
NOTED(cuMemAdvise)
NOTED(cuMemAdvise_v2)
#undef NOTED
STREAM_FUNCTION(cuStreamAttachMemAsync, _ptsz,
                ([[maybe_unused]] void* stream, DevicePtr memory, std::size_t, unsigned flags),
                { return attach(place(memory), flags); })
GUARDED(cuMemFree_v2, (DevicePtr memory), session().memory.release(memory))
STREAM_FUNCTION(cuMemAllocAsync, _ptsz,
                (DevicePtr * memory, std::size_t bytes, [[maybe_unused]] void* stream),
                { return allocate(memory, bytes); })
STREAM_FUNCTION(cuMemFreeAsync, _ptsz, (DevicePtr memory, void* stream),
                { return session().memory.release_on(number_of(stream), memory); })
GUARDED(cuMemGetInfo_v2, (std::size_t * free, std::size_t* total), tell_memory(free, total))
CUDA_EXPORT Status cuMemGetAddressRange_v2(DevicePtr* begin, std::size_t* bytes,
                                           DevicePtr address) {
  return guarded([&] {
    const auto block = session().memory.block_of(address);
    if (!block) return kInvalidValue;
    if (begin != nullptr) *begin = block->address;
    if (bytes != nullptr) *bytes = block->bytes;
    return kOk;
  });
}
GUARDED(cuMemAllocHost_v2, (void** memory, std::size_t bytes), allocate_host(memory, bytes))
GUARDED(cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned), allocate_host(memory, bytes))
GUARDED(cuMemFreeHost, (void* memory), session().host.release(memory))
GUARDED(cuMemHostRegister_v2, (void* memory, std::size_t bytes, unsigned),
        session().host.enter(memory, bytes))
CUDA_EXPORT Status cuMemHostGetDevicePointer_v2(DevicePtr* device, void* memory, unsigned) {
  return guarded([&] { return give(session().host.device_address(memory), device); });
}
GUARDED(cuMemHostUnregister, (void* memory), session().host.leave(memory))

// --- copies ------------------------------------------------------------------------------------

#define COPY_FUNCTION(name, suffix, parameters, to, from, kind)                                 \
  CUDA_EXPORT Status name parameters {                                                          \
    return guarded([&] { return copy({to, from, bytes, kind}, nullptr, false); });              \
  }                                                                                             \
  CUDA_EXPORT Status name##suffix parameters {                                                  \
    return guarded([&] { return copy({to, from, bytes, kind}, own_default(nullptr), false); }); \
  }
COPY_FUNCTION(cuMemcpyHtoD_v2, _ptds, (DevicePtr to, const void* from, std::size_t bytes),
              place(to), from, kHostToDevice)
COPY_FUNCTION(cuMemcpyDtoH_v2, _ptds, (void* to, DevicePtr from, std::size_t bytes), to,
              place(from), kDeviceToHost)
COPY_FUNCTION(cuMemcpyDtoD_v2, _ptds, (DevicePtr to, DevicePtr from, std::size_t bytes), place(to),
              place(from), kDeviceToDevice)
COPY_FUNCTION(cuMemcpy, _ptds, (DevicePtr to, DevicePtr from, std::size_t bytes), place(to),
              place(from), kByAddress)
STREAM_FUNCTION(cuMemcpyHtoDAsync_v2, _ptsz,
                (DevicePtr to, const void* from, std::size_t bytes, void* stream), {
                  return copy({place(to), from, bytes, kHostToDevice}, stream, true);
                })
STREAM_FUNCTION(cuMemcpyDtoHAsync_v2, _ptsz,
                (void* to, DevicePtr from, std::size_t bytes, void* stream), {
                  return copy({to, place(from), bytes, kDeviceToHost}, stream, true);
                })
STREAM_FUNCTION(cuMemcpyDtoDAsync_v2, _ptsz,
                (DevicePtr to, DevicePtr from, std::size_t bytes, void* stream), {
                  return copy({place(to), place(from), bytes, kDeviceToDevice}, stream, true);
                })
GUARDED(cuMemcpyPeer, (DevicePtr to, void*, DevicePtr from, void*, std::size_t bytes),
        copy({place(to), place(from), bytes, kByAddress}, nullptr, false))
STREAM_FUNCTION(cuMemcpyPeerAsync, _ptsz,
                (DevicePtr to, void*, DevicePtr from, void*, std::size_t bytes, void* stream), {
                  return copy({place(to), place(from), bytes, kByAddress}, stream, true);
                })
STREAM_FUNCTION(cuMemcpyAsync, _ptsz,
                (DevicePtr to, DevicePtr from, std::size_t bytes, void* stream), {
                  return copy({place(to), place(from), bytes, kByAddress}, stream, true);
                })
STREAM_FUNCTION(cuMemcpy2DAsync_v2, _ptsz, (const DriverCopy2D* copy, void* stream),
                { return copy_2d(copy, stream, true); })
GUARDED(cuMemcpy2D_v2, (const DriverCopy2D* copy), copy_2d(copy, nullptr, false))
CUDA_EXPORT Status cuMemcpy2DUnaligned_v2(const DriverCopy2D* copy) { return cuMemcpy2D_v2(copy); }

// --- sets --------------------------------------------------------------------------------------

GUARDED(cuMemsetD8_v2, (DevicePtr to, unsigned char value, std::size_t count),
        set(to, value, 1, count, nullptr, false))
GUARDED(cuMemsetD16_v2, (DevicePtr to, unsigned short value, std::size_t count),
        set(to, value, 2, count, nullptr, false))
GUARDED(cuMemsetD32_v2, (DevicePtr to, unsigned value, std::size_t count),
        set(to, value, 4, count, nullptr, false))
CUDA_EXPORT Status cuMemsetD2D8_v2(DevicePtr to, std::size_t pitch, unsigned char value,
                                   std::size_t width, std::size_t height) {
  return guarded([&] {
    return set_rows({place(to), pitch, value, 1, width, height}, nullptr, false);
  });
}
CUDA_EXPORT Status cuMemsetD2D32_v2(DevicePtr to, std::size_t pitch, unsigned value,
                                    std::size_t width, std::size_t height) {
  return guarded([&] {
    return set_rows({place(to), pitch, value, 4, width, height}, nullptr, false);
  });
}
STREAM_FUNCTION(cuMemsetD8Async, _ptsz,
                (DevicePtr to, unsigned char value, std::size_t count, void* stream),
                { return set(to, value, 1, count, stream, true); })
STREAM_FUNCTION(cuMemsetD16Async, _ptsz,
                (DevicePtr to, unsigned short value, std::size_t count, void* stream),
                { return set(to, value, 2, count, stream, true); })
STREAM_FUNCTION(cuMemsetD32Async, _ptsz,
                (DevicePtr to, unsigned value, std::size_t count, void* stream),
                { return set(to, value, 4, count, stream, true); })

CUDA_EXPORT Status cuPointerGetAttribute(void* value, int attribute, DevicePtr pointer) {
  return guarded([&] {
    enum Which {
      kContext = 1,
      kMemoryType,
      kDevicePointer,
      kHostPointer,
      kIsManaged = 8,
      kOrdinal = 9,
      kRangeStart = 11,
      kRangeSize = 12,
      kMapped = 13
    };
    const auto block = session().memory.block_of(pointer);
    const bool managed = session().managed.block_at(pointer).has_value();
    const bool pinned = session().host.is_pinned(place(pointer), 1);
    if (value == nullptr || (!block && !pinned)) return kInvalidValue;
    constexpr unsigned kHost = 1, kDevice = 2;
    switch (attribute) {
      case kMemoryType:
        *static_cast<unsigned*>(value) = block ? kDevice : kHost;
        return kOk;
      case kDevicePointer:
        if (!block && !session().host.has_one_address(place(pointer))) return kInvalidValue;
        *static_cast<DevicePtr*>(value) = pointer;
        return kOk;
      case kHostPointer:
        if (block && !managed) return kInvalidValue;
        *static_cast<void**>(value) = place(pointer);
        return kOk;
      case kIsManaged:
        *static_cast<unsigned*>(value) = managed ? 1 : 0;
        return kOk;
      case kOrdinal:
        *static_cast<int*>(value) = 0;
        return kOk;
      case kRangeStart:
        *static_cast<DevicePtr*>(value) = block ? block->address : pointer;
        return kOk;
      case kRangeSize:
        if (!block) return kInvalidValue;
        *static_cast<std::size_t*>(value) = block->bytes;
        return kOk;
      default:
        return unsupported("an attribute of cuPointerGetAttribute");
    }
  });
}

}  // namespace partita::remote::shim
