#include "client/device_memory.h"

#include <algorithm>
#include <array>

#include "client/session.h"

namespace partita::remote::client {
namespace {

// Of a copy to the device: other threads' operations may go between.
constexpr std::uint64_t kPiece = 4 << 20;

bool is_nothing(const CopyDevice& copy) { return copy.width == 0 || copy.rows == 0; }
bool is_nothing(const ArrayCopy& copy) {
  return copy.width == 0 || copy.rows == 0 || copy.slices == 0;
}
bool is_nothing(const Set& set) { return set.count == 0 || set.rows == 0; }
bool is_nothing(const Gemm&) { return false; }

template <class Work>
bool writes_anywhere(const Work&) {
  return false;
}
bool writes_anywhere(const Gemm& gemm) { return (gemm.form & kByPointers) != 0; }

// Where it writes, or null; then what else it names.
std::array<DevicePointer*, 2> places(CopyDevice& copy) { return {&copy.to, &copy.from}; }
std::array<DevicePointer*, 2> places(ArrayCopy& copy) {
  return copy.out != 0 ? std::array<DevicePointer*, 2>{&copy.memory}
                       : std::array<DevicePointer*, 2>{nullptr, &copy.memory};
}
std::array<DevicePointer*, 1> places(Set& set) { return {&set.to}; }
std::array<DevicePointer*, 5> places(Gemm& gemm) {
  return {&gemm.c, &gemm.a, &gemm.b, &gemm.alpha_at, &gemm.beta_at};
}

// `take` of the arena's; where there is nothing, once more when all that was freed late is free.
template <class Take>
auto taken(const Lock& lock, Link& link, Arena& addresses, const Take& take) {
  using Taken = typename decltype(take())::value_type;
  auto found = take();
  if (!found && addresses.late() > 0) {
    const std::size_t late = addresses.late();
    const Answer answer = link.call_held(lock, Fence{}, Cause::free_memory);
    if (answer.status != kOk) return Got<Taken>(refused(answer.status));
    addresses.recycle(late);
    found = take();
  }
  return found ? Got<Taken>(*found) : Got<Taken>(refused(kMemoryAllocation));
}

}  // namespace

Arena& DeviceMemory::arena() {
  if (arena_) return *arena_;
  Arena& fresh = arena_.emplace(core_.arena);
  all_.host.reserve_again(fresh);
  return fresh;
}

void DeviceMemory::clear() {
  arena_.reset();
  heap_ = kHeapBytes;
  elsewhere_.clear();
  globals_.clear();
}

Got<std::uint64_t> DeviceMemory::allocate(Lock& lock, std::uint64_t bytes, std::uint64_t align) {
  const auto given =
      taken(lock, *core_.link, arena(), [&] { return arena().allocate(bytes, align); });
  if (!given) return refused(given.error());
  if (given->range) {
    const Alloc alloc{.address = {given->range->address}, .bytes = given->range->bytes};
    if (const Status status = core_.link->post(lock, alloc); status != kOk) return refused(status);
  }
  elsewhere_.erase(given->address);
  if (current_device() != 0) elsewhere_[given->address] = current_device();
  return given->address;
}

Got<std::uint64_t> DeviceMemory::allocate(std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = core_.link->failure(); status != kOk) return refused(status);
  return allocate(lock, bytes);
}

Status DeviceMemory::release(const Lock& lock, std::uint64_t address) {
  // Cells of a shared range are not freed at the server, which would wait for all streams.
  Arena& addresses = arena();
  const auto block = addresses.find(address);
  if (!block || block->address != address) return kInvalidValue;
  const Arena::Taken taken =
      addresses.release(address, !addresses.has_own_range(address) && all_.streams.any());
  if (!taken.known) return kInvalidValue;
  return taken.range ? core_.link->post(lock, Free{.address = {taken.range->address}}) : kOk;
}

Status DeviceMemory::release(std::uint64_t address) {
  if (all_.managed.block_at(address)) return all_.managed.release(address);
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (address == 0 || all_.graph_memory.has(lock, address)) return core_.link->failure();
  const Status status = release(lock, address);
  return status != kOk ? status : core_.link->failure();
}

Status DeviceMemory::release_on(std::uint64_t stream, std::uint64_t address) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (all_.managed.holds(lock, address)) return kInvalidValue;
  if (all_.graph_memory.has(lock, address)) return kOk;  // its graph's next launch has it again
  return release_behind(lock, *real, address);
}

Got<std::uint64_t> DeviceMemory::allocate_on(std::uint64_t stream, std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = core_.link->failure(); status != kOk) return refused(status);
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real;
  Captures::Capture* const capture = all_.captures.at(*real);
  return capture != nullptr ? all_.graph_memory.make(lock, capture->copies, bytes)
                            : allocate(lock, bytes);
}

Got<std::uint64_t> DeviceMemory::reserve(std::uint64_t bytes, std::uint64_t align) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  return reserve(lock, bytes, align);
}

Got<std::uint64_t> DeviceMemory::reserve(const Lock& lock, std::uint64_t bytes,
                                         std::uint64_t align) {
  return taken(lock, *core_.link, arena(), [&] { return arena().reserve(bytes, align); });
}

Status DeviceMemory::unreserve(std::uint64_t address, std::uint64_t bytes) {
  const Lock lock(core_.mutex);
  return arena_ && arena_->unreserve(address, bytes) ? kOk : kInvalidValue;
}

Status DeviceMemory::map(const Block& part) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (!arena().map(part)) return kInvalidValue;
  return core_.link->post(lock, Alloc{.address = {part.address}, .bytes = part.bytes});
}

Status DeviceMemory::unmap(const Block& parts) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  for (std::uint64_t at = parts.address; at < parts.address + parts.bytes;) {
    const auto block = arena().find(at);
    if (!block || block->bytes > parts.address + parts.bytes - at || !arena().unmap(*block))
      return kInvalidValue;
    const Status status = core_.link->post(lock, Free{.address = {at}});
    if (status != kOk) return status;
    at += block->bytes;
  }
  return kOk;
}

std::optional<Block> DeviceMemory::block_of(std::uint64_t address) {
  const Lock lock(core_.mutex);
  if (all_.host.is_pinned(lock, reinterpret_cast<const void*>(address), 1)) return std::nullopt;
  if (arena_)
    if (const auto block = arena_->find(address)) return block;
  auto next = globals_.upper_bound(address);
  if (next == globals_.begin()) return std::nullopt;
  --next;
  if (address - next->first >= next->second) return std::nullopt;
  return Block{next->first, next->second};
}

int DeviceMemory::device_of(std::uint64_t address) {
  const auto block = block_of(address);
  const Lock lock(core_.mutex);
  const auto found = elsewhere_.find(block ? block->address : address);
  return found == elsewhere_.end() ? 0 : found->second;
}

bool DeviceMemory::contains(std::uint64_t address) {
  if (!core_.is_ready.load(std::memory_order_acquire)) return false;
  {
    const Lock lock(core_.mutex);
    if (all_.host.is_pinned(lock, reinterpret_cast<const void*>(address), 1)) return false;
    if (arena().contains(address)) return true;
  }
  return block_of(address).has_value();
}

bool DeviceMemory::covers(std::uint64_t address, std::uint64_t bytes) {
  const auto block = block_of(address);
  return block && bytes <= block->bytes - (address - block->address);
}

Got<MemoryState> DeviceMemory::state() {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const Arena& addresses = arena();
  return MemoryState{addresses.free_bytes(),
                     std::min(addresses.quota(), core_.device.total_memory)};
}

Status DeviceMemory::limit_heap(std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const std::uint64_t before = heap_, more = bytes - std::min(bytes, kHeapBytes);
  if (!arena().set_aside(more)) return kMemoryAllocation;
  const Answer answer = core_.link->call_held(lock, HeapLimit{bytes}, Cause::attributes);
  if (answer.status != kOk)
    return arena().set_aside(before - std::min(before, kHeapBytes)), answer.status;
  heap_ = bytes;
  return kOk;
}

// Once what the stream has got by now has ended; any time, where it is gone.
Status DeviceMemory::release_behind(const Lock& lock, std::uint64_t real, std::uint64_t address) {
  if (all_.streams.find(real) == nullptr) return release(lock, address);
  const Arena::Taken taken = arena().release(address, true);
  if (!taken.known) return kInvalidValue;
  if (!taken.range) return kOk;
  all_.streams.note_work(real);
  return core_.link->post(lock, FreeOnStream{.stream = {real}, .address = {taken.range->address}});
}

Status DeviceMemory::copy_in(std::uint64_t stream, std::uint64_t to, const void* from,
                             std::uint64_t bytes, bool later) {
  if (!later)
    if (const Status status = all_.call_copies.wait(stream, from, bytes); status != kOk)
      return status;
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (bytes == 0) return core_.link->failure();
  if (later) {
    if (const auto there = all_.host.mapped(lock, from, bytes)) {
      lock.unlock();
      return copy(stream, CopyDevice{.to = {to}, .from = {*there}, .width = bytes});
    }
  }
  if (const Status status = all_.managed.begin_work(lock, *real, to, false); status != kOk)
    return status;
  Bytes rest(static_cast<const std::byte*>(from), bytes);
  if (Captures::Capture* capture = all_.captures.at(*real)) {
    const auto staging = allocate(lock, bytes);
    if (!staging) return staging.error();
    auto* host = const_cast<std::byte*>(rest.data());
    capture->copies.in.push_back({.staging = *staging, .bytes = bytes, .host = host});
    return core_.link->post(
        lock, CopyDevice{.stream = {*real}, .to = {to}, .from = {*staging}, .width = bytes});
  }
  if (later && all_.host.is_pinned(lock, from, bytes) && all_.streams.is_behind_writes(*real))
    return all_.call_copies.copy_in(lock, *real, to, rest);
  // No work to be waited for: the bytes have left the program's memory when this returns, and
  // nobody can see when they arrive. Loaders synchronise after every tensor.
  if (core_.shares) all_.streams.note_work(*real);
  if (const Status status = all_.host.map_named(lock, to, rest); status != kOk) return status;
  for (;;) {
    const Bytes piece = rest.first(std::min<std::uint64_t>(rest.size(), kPiece));
    const Status status = core_.link->post(lock, CopyIn{.stream = {*real}, .to = {to}}, piece);
    rest = rest.subspan(piece.size());
    to += piece.size();
    if (status != kOk || rest.empty()) return status;
    lock.unlock();
    lock.lock();
    if (core_.link == nullptr) return kLost;
  }
}

Status DeviceMemory::copy_out(std::uint64_t stream, void* to, std::uint64_t from,
                              std::uint64_t bytes, bool later) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (bytes == 0) return core_.link->failure();
  auto* place = static_cast<std::byte*>(to);
  if (Captures::Capture* capture = all_.captures.at(*real)) {
    const auto staging = allocate(lock, bytes);
    if (!staging) return staging.error();
    capture->copies.out.push_back({.staging = *staging, .bytes = bytes, .host = place});
    return core_.link->post(
        lock, CopyDevice{.stream = {*real}, .to = {*staging}, .from = {from}, .width = bytes});
  }
  if (const Status status = core_.link->failure(); status != kOk) return status;
  if (const auto there = later ? all_.host.mapped(lock, to, bytes) : std::nullopt) {
    lock.unlock();
    return copy(stream, CopyDevice{.to = {*there}, .from = {from}, .width = bytes});
  }
  const bool reads = all_.managed.holds(lock, from);
  if (const Status status = all_.managed.begin_work(lock, *real, 0, reads); status != kOk)
    return status;
  const std::uint64_t number = all_.streams.note_work(*real);
  if (later && all_.host.is_pinned(lock, to, bytes)) {
    all_.streams.note_write(*real);
    const std::uint64_t token = core_.expect_copy(place, bytes);
    core_.link->watch();
    return core_.link->post(
        lock, CopyOutLater{.stream = {*real}, .from = {from}, .bytes = bytes, .token = {token}});
  }
  const Answer answer =
      core_.link->call(lock, CopyOut{.stream = {*real}, .from = {from}, .bytes = bytes},
                       Cause::copy_out, {place, bytes});
  lock.lock();
  if (answer.status != kOk) return answer.status;
  if (answer.bulk_bytes != bytes) return kUnknown;
  all_.streams.note_finished(*real, number);
  return all_.managed.end_work(lock);
}

// A copy, a value or a product, of which nobody waits for the end.
template <class Work>
Status DeviceMemory::enqueue(std::uint64_t stream, Work work, bool reads) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (is_nothing(work)) return core_.link->failure();
  const auto named = places(work);
  if (all_.host.any())
    for (DevicePointer* const place : named)
      if (place != nullptr)
        if (const Status status = all_.host.map_address(lock, *place); status != kOk) return status;
  std::optional<std::uint64_t> to;
  if (!writes_anywhere(work)) to = named[0] == nullptr ? 0 : named[0]->value;
  if (const Status status = all_.managed.begin_work(lock, *real, to, reads); status != kOk)
    return status;
  work.stream = {*real};
  if (all_.captures.at(*real) == nullptr) all_.streams.note_work(*real);
  return core_.link->post(lock, work);
}

Status DeviceMemory::copy(std::uint64_t stream, const CopyDevice& copy) {
  return enqueue(stream, copy);
}

Status DeviceMemory::copy(std::uint64_t stream, const ArrayCopy& copy) {
  return enqueue(stream, copy);
}

Status DeviceMemory::set(std::uint64_t stream, const Set& set) {
  return enqueue(stream, set, false);
}

Status DeviceMemory::multiply(std::uint64_t stream, const Gemm& gemm) {
  return enqueue(stream, gemm);
}

}  // namespace partita::remote::client
