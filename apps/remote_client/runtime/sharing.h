// Memory and events between processes, as both interfaces give them away: handles of 64 bytes, and
// files that a process passes to another one. They hold the key that the server drew.
#pragma once

#include "abi.h"

namespace partita::remote::shim {

struct SharedHandle {  // cudaIpcMemHandle_t, cudaIpcEventHandle_t, cudaMemPoolPtrExportData
  enum class Kind : std::uint64_t { memory = 0x6d656d5f74726170, event, pooled, pool, physical };
  Kind kind = Kind::memory;
  client::ShareKey key = {};
  std::uint64_t bytes = 0;
  client::ShareKey pool = {};  // of memory that a pool gave
  std::uint64_t nothing[2] = {};
};
static_assert(sizeof(SharedHandle) == 64);

struct PoolProperties {  // cudaMemPoolProps, its begin
  int kind, handle_types;
};
// A pool whose memory others may open.
Status create_shared_pool(void** pool);

Status share_memory(SharedHandle* handle, const void* memory);
Status open_memory(void** memory, const SharedHandle& handle);
// What was opened as often as closed is freed.
Status close_memory(void* memory);
Status share_event(SharedHandle* handle, void* event);
Status open_event(void** event, const SharedHandle& handle);

// A file with the handle in it: its descriptor.
client::Got<int> file_of(const SharedHandle& handle);
client::Got<SharedHandle> handle_in(int file, SharedHandle::Kind kind);

}  // namespace partita::remote::shim
