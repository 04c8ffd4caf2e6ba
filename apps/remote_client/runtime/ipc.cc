// cudaIpc, and memory pools of which other processes have a part.
#include <sys/random.h>

#include <map>
#include <mutex>

#include "sharing.h"

namespace partita::remote::shim {

using client::kInvalidValue;
using client::kOk;

CUDA_EXPORT Status cudaIpcGetMemHandle(SharedHandle* handle, void* memory) {
  return guarded([&] { return share_memory(handle, memory); });
}
GUARDED(cudaIpcOpenMemHandle, (void** memory, SharedHandle handle, unsigned),
        open_memory(memory, handle))
GUARDED(cudaIpcCloseMemHandle, (void* memory), close_memory(memory))
CUDA_EXPORT Status cudaIpcGetEventHandle(SharedHandle* handle, void* event) {
  return guarded([&] { return share_event(handle, event); });
}
GUARDED(cudaIpcOpenEventHandle, (void** event, SharedHandle handle), open_event(event, handle))

// ---- pools: names, by which others tell whose memory it is ----

namespace {

constexpr int kFile = 1;  // cudaMemHandleTypePosixFileDescriptor

struct Pools {
  std::mutex mutex;
  std::map<void*, client::ShareKey> names;
  std::map<std::uint64_t, client::ShareKey> given;  // by address: from which pool
};
Pools& shared_pools() {
  static Pools pools;
  return pools;
}

void* add_pool(const client::ShareKey& name) {
  Pools& pools = shared_pools();
  const std::lock_guard lock(pools.mutex);
  void* const pool = new char;  // its address is its handle
  pools.names.emplace(pool, name);
  return pool;
}

client::Got<client::ShareKey> name_of(void* pool) {
  Pools& pools = shared_pools();
  const std::lock_guard lock(pools.mutex);
  const auto found = pools.names.find(pool);
  if (found == pools.names.end()) return client::refused(kInvalidValue);
  return found->second;
}

}  // namespace

Status create_shared_pool(void** pool) {
  client::ShareKey name;
  if (::getrandom(name.data(), name.size(), 0) != static_cast<ssize_t>(name.size()))
    return client::kUnknown;
  *pool = add_pool(name);
  return kOk;
}

STREAM_FUNCTION(cudaMallocFromPoolAsync, _ptsz,
                (void** memory, std::size_t bytes, void* pool, void* stream), {
                  const auto name = name_of(pool);
                  const Status status =
                      give(session().memory.allocate_on(number_of(stream), bytes), memory);
                  if (status != kOk || !name) return status;
                  Pools& pools = shared_pools();
                  const std::lock_guard lock(pools.mutex);
                  pools.given[number_of(*memory)] = *name;
                  return kOk;
                })
CUDA_EXPORT Status cudaMemPoolDestroy(void* pool) {
  Pools& pools = shared_pools();
  const std::lock_guard lock(pools.mutex);
  if (pools.names.erase(pool) > 0) delete static_cast<char*>(pool);
  return kOk;
}
CUDA_EXPORT Status cudaMemPoolGetAccess(int* access, void*, const void*) {
  constexpr int kReadWrite = 3;
  if (access == nullptr) return remember(kInvalidValue);
  *access = kReadWrite;
  return kOk;
}
CUDA_EXPORT Status cudaMemPoolExportToShareableHandle(void* handle, void* pool, int type,
                                                      unsigned) {
  return guarded([&] {
    const auto name = name_of(pool);
    if (!name || handle == nullptr) return kInvalidValue;
    if (type != kFile) return unsupported("cudaMemPoolExportToShareableHandle (no file)");
    const auto file = file_of({.kind = SharedHandle::Kind::pool, .pool = *name});
    if (!file) return file.error();
    *static_cast<int*>(handle) = *file;
    return kOk;
  });
}
CUDA_EXPORT Status cudaMemPoolImportFromShareableHandle(void** pool, void* handle, int type,
                                                        unsigned) {
  return guarded([&] {
    if (pool == nullptr) return kInvalidValue;
    if (type != kFile) return unsupported("cudaMemPoolImportFromShareableHandle (no file)");
    const auto from = handle_in(static_cast<int>(number_of(handle)), SharedHandle::Kind::pool);
    if (!from) return from.error();
    *pool = add_pool(from->pool);
    return kOk;
  });
}
CUDA_EXPORT Status cudaMemPoolExportPointer(SharedHandle* data, void* memory) {
  return guarded([&] {
    client::ShareKey name;
    {
      Pools& pools = shared_pools();
      const std::lock_guard lock(pools.mutex);
      const auto found = pools.given.find(number_of(memory));
      if (found == pools.given.end()) return kInvalidValue;
      name = found->second;
    }
    if (const Status status = share_memory(data, memory); status != kOk) return status;
    data->kind = SharedHandle::Kind::pooled;
    data->pool = name;
    return kOk;
  });
}
CUDA_EXPORT Status cudaMemPoolImportPointer(void** memory, void* pool, const SharedHandle* data) {
  return guarded([&] {
    const auto name = name_of(pool);
    if (!name || data == nullptr || data->kind != SharedHandle::Kind::pooled ||
        data->pool != *name)
      return kInvalidValue;
    return give(session().shared.open(data->key, data->bytes), memory);
  });
}

}  // namespace partita::remote::shim
