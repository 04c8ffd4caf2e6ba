#include "client/sharing.h"

#include <algorithm>

#include "client/session.h"

namespace partita::remote::client {

Got<ShareKey> key_in(Bytes bytes) {
  ShareKey key;
  if (bytes.size() != key.size()) return refused(kUnknown);
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

Got<ShareKey> SharedMemory::share(std::uint64_t address, std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  core_.shares = true;
  const Answer answer = core_.link->call_held(
      lock, MemoryShare{.address = {address}, .bytes = bytes}, Cause::sharing);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<MemoryShare::Reply>(answer.reply);
  return reply ? key_in(reply->key) : refused(kUnknown);
}

Status SharedMemory::open_at(Lock& lock, const ShareKey& key, const Block& part) {
  core_.shares = true;
  return core_.link
      ->call_held(lock, MemoryOpen{.key = key, .address = {part.address}, .bytes = part.bytes},
                  Cause::sharing)
      .status;
}

Got<std::uint64_t> SharedMemory::open(const ShareKey& key, std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  Arena& addresses = all_.memory.arena();
  const auto given = addresses.allocate(bytes, Arena::kPage);
  if (!given) return refused(kMemoryAllocation);
  const Status status = open_at(lock, key, {given->address, bytes});
  if (status == kOk) return given->address;
  addresses.release(given->address, true);
  return refused(status);
}

Status SharedMemory::open_at(const ShareKey& key, const Block& part) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  Arena& addresses = all_.memory.arena();
  if (!addresses.map(part)) return kMemoryAllocation;
  const Status status = open_at(lock, key, part);
  if (status != kOk) addresses.unmap(part);
  return status;
}

}  // namespace partita::remote::client
