#include "sharing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace partita::remote::shim {
namespace {

using client::kInvalidValue;
using client::kOk;

struct Opened {
  std::uint64_t address = 0;
  int times = 0;
};
struct AllOpened {
  std::mutex mutex;
  std::map<client::ShareKey, Opened> by_key;
};
AllOpened& all_opened() {
  static AllOpened opened;
  return opened;
}

}  // namespace

Status share_memory(SharedHandle* handle, const void* memory) {
  if (handle == nullptr) return kInvalidValue;
  if (const Status status = session().ready(); status != kOk) return status;
  const auto block = session().memory.block_of(number_of(memory));
  if (!block) return kInvalidValue;
  if (block->bytes < client::Arena::kPage)
    return unsupported("cudaIpcGetMemHandle (less than 4096 bytes)");
  const auto key = session().shared.share(block->address, 0);
  if (!key) return key.error();
  *handle = {.key = *key, .bytes = block->bytes};
  return kOk;
}

// A process has it at one place, however often it opens it.
Status open_memory(void** memory, const SharedHandle& handle) {
  if (memory == nullptr || handle.kind != SharedHandle::Kind::memory) return kInvalidValue;
  AllOpened& all = all_opened();
  const std::lock_guard lock(all.mutex);
  Opened& opened = all.by_key[handle.key];
  if (opened.times == 0) {
    const auto address = session().shared.open(handle.key, handle.bytes);
    if (!address) return address.error();
    opened.address = *address;
  }
  ++opened.times;
  *memory = handle_of(opened.address);
  return kOk;
}

Status close_memory(void* memory) {
  AllOpened& all = all_opened();
  const std::lock_guard lock(all.mutex);
  for (auto& [key, opened] : all.by_key) {
    if (opened.times == 0 || opened.address != number_of(memory)) continue;
    return --opened.times > 0 ? kOk : session().memory.release(opened.address);
  }
  return kInvalidValue;
}

Status share_event(SharedHandle* handle, void* event) {
  if (handle == nullptr) return kInvalidValue;
  const auto key = session().events.share(number_of(event));
  if (!key) return key.error();
  *handle = {.kind = SharedHandle::Kind::event, .key = *key};
  return kOk;
}

Status open_event(void** event, const SharedHandle& handle) {
  if (handle.kind != SharedHandle::Kind::event) return kInvalidValue;
  return give(session().events.open(handle.key), event);
}

client::Got<int> file_of(const SharedHandle& handle) {
  const int file = ::memfd_create("partita", MFD_CLOEXEC);
  if (file < 0) return client::refused(client::kMemoryAllocation);
  if (::pwrite(file, &handle, sizeof(handle), 0) == sizeof(handle)) return file;
  ::close(file);
  return client::refused(client::kMemoryAllocation);
}

client::Got<SharedHandle> handle_in(int file, SharedHandle::Kind kind) {
  SharedHandle handle;
  if (::pread(file, &handle, sizeof(handle), 0) != sizeof(handle) || handle.kind != kind)
    return client::refused(kInvalidValue);
  return handle;
}

}  // namespace partita::remote::shim
