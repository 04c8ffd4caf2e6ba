// libcuda: virtual memory management, memory between processes, and linking. A handle of memory is
// its size until it is mapped, once and whole, or given to another process; a program linked of one
// PTX is that PTX.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "driver.h"
#include "sharing.h"

namespace partita::remote::shim {
namespace {

constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;
constexpr int kFile = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

struct Properties {  // CUmemAllocationProp
  int type = 0, handle_types = 0, place = 0, device = 0;
  void* attributes = nullptr;
  unsigned char flags[8] = {};
};
static_assert(sizeof(Properties) == 32);

struct Memory {
  std::uint64_t bytes = 0;
  Properties properties = {};
  bool mapped = false;
  DevicePtr address = 0;  // where
  std::optional<client::ShareKey> key = {};
};

Status create(Memory** handle, std::size_t bytes, const Properties* properties) {
  constexpr int kPinned = 1, kDevice = 1;
  if (handle == nullptr || properties == nullptr || bytes == 0 || bytes % kGranularity != 0)
    return kInvalidValue;
  if (properties->type != kPinned || properties->place != kDevice || properties->device < 0 ||
      properties->device >= session().device().count)
    return unsupported("cuMemCreate (memory that is not this device's)");
  if ((properties->handle_types & ~kFile) != 0) return unsupported("cuMemCreate (handles)");
  if (const Status status = session().ready(); status != kOk) return status;
  *handle = new Memory{.bytes = bytes, .properties = *properties};
  (*handle)->properties.flags[0] = 0;  // not compressed
  return kOk;
}

Status map(DevicePtr address, std::size_t bytes, std::size_t offset, Memory* handle) {
  if (handle == nullptr) return kInvalidValue;
  if (offset != 0 || bytes != handle->bytes || handle->mapped)
    return unsupported("cuMemMap (a part of a handle, or a handle twice)");
  const client::Block part{address, bytes};
  const Status status = handle->key ? session().shared.open_at(*handle->key, part)
                                    : session().memory.map(part);
  handle->mapped = status == kOk;
  handle->address = address;
  return status;
}

Status export_to(int* file, Memory* handle, int type) {
  if (file == nullptr || handle == nullptr) return kInvalidValue;
  if (type != kFile || (handle->properties.handle_types & kFile) == 0)
    return unsupported("cuMemExportToShareableHandle (no file)");
  if (!handle->key) {
    const auto key = session().shared.share(handle->mapped ? handle->address : 0, handle->bytes);
    if (!key) return key.error();
    handle->key = *key;
  }
  const auto made = file_of(
      {.kind = SharedHandle::Kind::physical, .key = *handle->key, .bytes = handle->bytes});
  if (!made) return made.error();
  *file = *made;
  return kOk;
}

Status import_from(Memory** handle, int file, int type) {
  if (handle == nullptr) return kInvalidValue;
  if (type != kFile) return unsupported("cuMemImportFromShareableHandle (no file)");
  if (const Status status = session().ready(); status != kOk) return status;
  const auto from = handle_in(file, SharedHandle::Kind::physical);
  if (!from) return from.error();
  constexpr int kPinned = 1, kDevice = 1;
  *handle = new Memory{.bytes = from->bytes,
                       .properties = {.type = kPinned, .handle_types = kFile, .place = kDevice},
                       .key = from->key};
  return kOk;
}

Status release(Memory* handle) {
  if (handle == nullptr) return kInvalidValue;
  delete handle;  // what is mapped stays until it is unmapped
  return kOk;
}

struct Link {
  std::string ptx;
};

Status add_ptx(Link* link, int type, const char* text, std::size_t bytes) {
  constexpr int kPtx = 1;
  if (link == nullptr || text == nullptr) return kInvalidValue;
  if (type != kPtx || !link->ptx.empty()) return unsupported("cuLink of anything but one PTX");
  link->ptx.assign(text, ::strnlen(text, bytes));
  return kOk;
}

}  // namespace

CUDA_EXPORT Status cuMemGetAllocationGranularity(std::size_t* bytes, const Properties*, int) {
  return hand_out(kGranularity, bytes);
}
CUDA_EXPORT Status cuMemAddressReserve(DevicePtr* address, std::size_t bytes, std::size_t align,
                                       DevicePtr, unsigned long long) {
  return guarded([&] {
    if (bytes % kGranularity != 0) return kInvalidValue;
    return give(session().memory.reserve(bytes, std::max<std::uint64_t>(align, kGranularity)),
                address);
  });
}
GUARDED(cuMemAddressFree, (DevicePtr address, std::size_t bytes),
        session().memory.unreserve(address, bytes))
CUDA_EXPORT Status cuMemCreate(Memory** handle, std::size_t bytes, const Properties* properties,
                               unsigned long long) {
  return guarded([&] { return create(handle, bytes, properties); });
}
CUDA_EXPORT Status cuMemRelease(Memory* handle) {
  return guarded([&] { return release(handle); });
}
CUDA_EXPORT Status cuMemGetAllocationPropertiesFromHandle(Properties* properties, Memory* handle) {
  if (properties == nullptr || handle == nullptr) return kInvalidValue;
  *properties = handle->properties;
  return kOk;
}
CUDA_EXPORT Status cuMemMap(DevicePtr address, std::size_t bytes, std::size_t offset,
                            Memory* handle, unsigned long long) {
  return guarded([&] { return map(address, bytes, offset, handle); });
}
// One device, which may read and write all that it has.
GUARDED(cuMemSetAccess, (DevicePtr address, std::size_t, const void*, std::size_t),
        session().memory.block_of(address) ? kOk : kInvalidValue)
GUARDED(cuMemUnmap, (DevicePtr address, std::size_t bytes),
        session().memory.unmap({address, bytes}))

GUARDED(cuMemExportToShareableHandle, (void* handle, Memory* memory, int type, unsigned long long),
        export_to(static_cast<int*>(handle), memory, type))
CUDA_EXPORT Status cuMemImportFromShareableHandle(Memory** memory, void* handle, int type) {
  return guarded(
      [&] { return import_from(memory, static_cast<int>(number_of(handle)), type); });
}
CUDA_EXPORT Status cuIpcGetMemHandle(SharedHandle* handle, DevicePtr memory) {
  return guarded([&] { return share_memory(handle, handle_of(memory)); });
}
CUDA_EXPORT Status cuIpcOpenMemHandle_v2(DevicePtr* memory, SharedHandle handle, unsigned) {
  return guarded([&] { return open_memory(reinterpret_cast<void**>(memory), handle); });
}
GUARDED(cuIpcCloseMemHandle, (DevicePtr memory), close_memory(handle_of(memory)))
CUDA_EXPORT Status cuIpcGetEventHandle(SharedHandle* handle, void* event) {
  return guarded([&] { return share_event(handle, event); });
}
GUARDED(cuIpcOpenEventHandle, (void** event, SharedHandle handle), open_event(event, handle))

CUDA_EXPORT Status cuLinkCreate_v2(unsigned, int*, void**, Link** link) {
  return guarded([&] {
    if (link == nullptr) return kInvalidValue;
    *link = new Link;
    return kOk;
  });
}
CUDA_EXPORT Status cuLinkAddData_v2(Link* link, int type, void* data, std::size_t bytes,
                                    const char*, unsigned, int*, void**) {
  return guarded([&] { return add_ptx(link, type, static_cast<char*>(data), bytes); });
}
CUDA_EXPORT Status cuLinkComplete(Link* link, void** code, std::size_t* bytes) {
  if (link == nullptr || code == nullptr || link->ptx.empty()) return remember(kInvalidValue);
  *code = link->ptx.data();
  if (bytes != nullptr) *bytes = link->ptx.size() + 1;
  return kOk;
}
CUDA_EXPORT Status cuLinkDestroy(Link* link) {
  delete link;
  return kOk;
}

}  // namespace partita::remote::shim
