// Memory of the session: addresses, copies, pinned memory of the program.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "client/session.h"

namespace partita::remote::client {
namespace {

// Of a copy to the device: other threads' operations may go between.
constexpr std::uint64_t kPiece = 4 << 20;
constexpr std::size_t kPage = 4096;

bool covers(const std::map<std::uintptr_t, std::uint64_t>& ranges, const void* memory,
            std::uint64_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return false;
  --next;
  return at - next->first < next->second && bytes <= next->second - (at - next->first);
}

}  // namespace

Got<std::uint64_t> Session::allocate_locked(Lock& lock, std::uint64_t bytes, std::uint64_t align) {
  auto given = arena_->allocate(bytes, align);
  if (!given && arena_->late() > 0) {
    const std::size_t late = arena_->late();
    const Answer answer = link_->call_held(lock, Fence{}, Cause::free_memory);
    if (answer.status != kOk) return refused(answer.status);
    arena_->recycle(late);
    given = arena_->allocate(bytes, align);
  }
  if (!given) return refused(kMemoryAllocation);
  if (given->range) {
    const Alloc alloc{.address = {given->range->address}, .bytes = given->range->bytes};
    if (const Status status = link_->post(lock, alloc); status != kOk) return refused(status);
  }
  return given->address;
}

Got<std::uint64_t> Session::allocate(std::uint64_t bytes) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  if (const Status status = link_->failure(); status != kOk) return refused(status);
  return allocate_locked(lock, bytes);
}

Status Session::release_locked(const Lock& lock, std::uint64_t address) {
  // Cells of a shared range are not freed at the server, which would wait for all streams.
  const auto block = arena_->find(address);
  if (!block || block->address != address) return kInvalidValue;
  const Arena::Taken taken =
      arena_->release(address, !arena_->has_own_range(address) && !streams_.empty());
  return taken.range ? link_->post(lock, Free{.address = {taken.range->address}}) : kOk;
}

Status Session::release(std::uint64_t address) {
  if (managed_at(address)) return release_managed(address);
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  if (address == 0) return link_->failure();
  const Status status = release_locked(lock, address);
  return status != kOk ? status : link_->failure();
}

Status Session::release_on(std::uint64_t stream, std::uint64_t address) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (managed_.find(address)) return kInvalidValue;
  const Arena::Taken taken = arena_->release(address, true);
  if (!taken.known) return kInvalidValue;
  if (!taken.range) return kOk;
  note_work(*real);
  return link_->post(lock, FreeOnStream{.stream = {*real}, .address = {taken.range->address}});
}

std::optional<Block> Session::block_of(std::uint64_t address) {
  const Lock lock(mutex_);
  if (!arena_) return std::nullopt;
  if (const auto block = arena_->find(address)) return block;
  auto next = globals_.upper_bound(address);
  if (next == globals_.begin()) return std::nullopt;
  --next;
  if (address - next->first >= next->second) return std::nullopt;
  return Block{next->first, next->second};
}

bool Session::is_device(std::uint64_t address) {
  if (!is_ready_.load(std::memory_order_acquire)) return false;
  {
    const Lock lock(mutex_);
    if (arena_ && arena_->contains(address)) return true;
  }
  return block_of(address).has_value();
}

bool Session::covers_device(std::uint64_t address, std::uint64_t bytes) {
  const auto block = block_of(address);
  return block && bytes <= block->bytes - (address - block->address);
}

Got<MemoryState> Session::memory() {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  return MemoryState{arena_->free_bytes(), std::min(arena_->quota(), device_.total_memory)};
}

Got<std::uint64_t> Session::stage(Lock& lock, std::uint64_t bytes) {
  return allocate_locked(lock, bytes);
}

Status Session::copy_in(std::uint64_t stream, std::uint64_t to, const void* from,
                        std::uint64_t bytes) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (bytes == 0) return link_->failure();
  if (const Status status = begin_work(lock, *real, to); status != kOk) return status;
  Bytes rest(static_cast<const std::byte*>(from), bytes);
  if (Capture* capture = capture_at(*real)) {
    const auto staging = stage(lock, bytes);
    if (!staging) return staging.error();
    auto* host = const_cast<std::byte*>(rest.data());
    capture->copies.in.push_back({.staging = *staging, .bytes = bytes, .host = host});
    return link_->post(
        lock, CopyDevice{.stream = {*real}, .to = {to}, .from = {*staging}, .width = bytes});
  }
  // No work to be waited for: the bytes have left the program's memory when this returns, and
  // nobody can see when they arrive. Loaders synchronise after every tensor.
  for (;;) {
    const Bytes piece = rest.first(std::min<std::uint64_t>(rest.size(), kPiece));
    const Status status = link_->post(lock, CopyIn{.stream = {*real}, .to = {to}}, piece);
    rest = rest.subspan(piece.size());
    to += piece.size();
    if (status != kOk || rest.empty()) return status;
    lock.unlock();
    lock.lock();
    if (link_ == nullptr) return kLost;
  }
}

Status Session::copy_out(std::uint64_t stream, void* to, std::uint64_t from, std::uint64_t bytes,
                         bool later) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (bytes == 0) return link_->failure();
  auto* place = static_cast<std::byte*>(to);
  if (Capture* capture = capture_at(*real)) {
    const auto staging = stage(lock, bytes);
    if (!staging) return staging.error();
    capture->copies.out.push_back({.staging = *staging, .bytes = bytes, .host = place});
    return link_->post(
        lock, CopyDevice{.stream = {*real}, .to = {*staging}, .from = {from}, .width = bytes});
  }
  if (const Status status = link_->failure(); status != kOk) return status;
  if (const Status status = begin_work(lock, *real, 0); status != kOk) return status;
  const std::uint64_t number = note_work(*real);
  if (later && covers(pinned_, to, bytes)) {
    const std::uint64_t token = ++next_token_;
    {
      const std::lock_guard notices(notice_mutex_);
      deferred_[token] = {place, bytes};
    }
    link_->watch();
    return link_->post(
        lock, CopyOutLater{.stream = {*real}, .from = {from}, .bytes = bytes, .token = {token}});
  }
  const Answer answer =
      link_->call(lock, CopyOut{.stream = {*real}, .from = {from}, .bytes = bytes}, Cause::copy_out,
                  {place, bytes});
  lock.lock();
  if (answer.status != kOk) return answer.status;
  if (answer.bulk_bytes != bytes) return kUnknown;
  note_finished(*real, number);
  return show_program(lock);
}

Status Session::copy_device(std::uint64_t stream, const CopyDevice& copy) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (copy.width == 0 || copy.rows == 0) return link_->failure();
  if (const Status status = begin_work(lock, *real, copy.to.value); status != kOk) return status;
  CopyDevice sent = copy;
  sent.stream = {*real};
  if (capture_at(*real) == nullptr) note_work(*real);
  return link_->post(lock, sent);
}

Status Session::set(std::uint64_t stream, const Set& set) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (set.count == 0 || set.rows == 0) return link_->failure();
  if (const Status status = begin_work(lock, *real, set.to.value); status != kOk) return status;
  Set sent = set;
  sent.stream = {*real};
  if (capture_at(*real) == nullptr) note_work(*real);
  return link_->post(lock, sent);
}

Status Session::multiply(std::uint64_t stream, const Gemm& gemm) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (const Status status = begin_work(lock, *real, gemm.c.value); status != kOk) return status;
  Gemm sent = gemm;
  sent.stream = {*real};
  if (capture_at(*real) == nullptr) note_work(*real);
  return link_->post(lock, sent);
}

// --- memory of the program ---------------------------------------------------------------------

Got<void*> Session::host_allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  if (bytes > kMost) return refused(kMemoryAllocation);
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) return refused(kMemoryAllocation);
  const Lock lock(mutex_);
  pinned_[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return memory;
}

Status Session::host_release(void* memory) {
  if (memory == nullptr) return kOk;
  // Bytes that still come for it have no place afterwards.
  if (const Status status = synchronise(); status == kLost) return status;
  {
    const Lock lock(mutex_);
    if (pinned_.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) return kInvalidValue;
  }
  std::free(memory);
  return kOk;
}

Status Session::host_register(void* memory, std::uint64_t bytes) {
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  constexpr Status kAlreadyRegistered = 712;
  const Lock lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  if (!pinned_.emplace(at, bytes).second) return kAlreadyRegistered;
  registered_.emplace(at, bytes);
  return kOk;
}

Status Session::host_unregister(void* memory) {
  constexpr Status kNotRegistered = 713;
  if (const Status status = synchronise(); status == kLost) return status;
  const Lock lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  if (registered_.erase(at) == 0) return kNotRegistered;
  pinned_.erase(at);
  return kOk;
}

bool Session::is_pinned(const void* memory, std::uint64_t bytes) {
  const Lock lock(mutex_);
  return covers(pinned_, memory, bytes);
}

}  // namespace partita::remote::client
