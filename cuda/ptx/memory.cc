#include "ptx/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ptx/machine.h"

namespace partita::ptx {
namespace {

// Nobody's memory behind what allocate() gives, so that reaching over its end shows.
constexpr std::uint64_t kGapBehind = kAllocationAlignment;
constexpr std::size_t kMaxWrittenRanges = 64;  // of an allocation, then the shadow
constexpr std::uint64_t kGiveBackBytes = std::uint64_t{1} << 20;

constexpr std::uint64_t kHeapAlignment = 16;  // as CUDA's malloc

std::uint64_t up(std::uint64_t value, std::uint64_t align) {
  return (value + align - 1) / align * align;
}
// Of the heap's limit; `bytes` are at most that.
std::uint64_t heap_cost(std::uint64_t bytes) {
  return up(bytes, kHeapAlignment) + kHeapBookkeeping;
}
void* reserve(std::uint64_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  ::madvise(at, bytes, MADV_HUGEPAGE);
  return at;
}
constexpr std::uint64_t kPage = 4096;
// Allocated, where a check of global memory may note each byte: that takes 24 times as much.
constexpr std::uint64_t kMostBytesNoted = std::uint64_t{64} << 20;
std::uint64_t pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
// Pages of a file, from its begin, or (-1) empty ones in the place of those that are there.
bool map_pages(void* at, std::uint64_t bytes, int file) {
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  return ::mmap(at, pages(bytes), PROT_READ | PROT_WRITE, kind | MAP_FIXED, file, 0) != MAP_FAILED;
}
// Forgets the content: pages go back to the system where the range is large.
void forget(void* begin, std::uint64_t bytes) {
  if (bytes < kGiveBackBytes) {
    std::memset(begin, 0, bytes);
    return;
  }
  const auto from = (reinterpret_cast<std::uintptr_t>(begin) + 4095) / 4096 * 4096;
  const auto to = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / 4096 * 4096;
  std::memset(begin, 0, from - reinterpret_cast<std::uintptr_t>(begin));
  std::memset(reinterpret_cast<void*>(to), 0, reinterpret_cast<std::uintptr_t>(begin) + bytes - to);
  ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

}  // namespace

const Allocation* Table::find(std::uint64_t address) const {
  auto after = std::upper_bound(
      all.begin(), all.end(), address,
      [](std::uint64_t at, const Allocation& allocation) { return at < allocation.begin; });
  if (after == all.begin()) return nullptr;
  const Allocation& before = *--after;
  return address - before.begin < before.bytes ? &before : nullptr;
}

Result<std::unique_ptr<Arena>> Arena::open(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxArenaBytes)
    return tl::unexpected(Error{ErrorCode::invalid_argument, "size of the device memory", {}});
  bytes = (bytes + 4095) / 4096 * 4096;
  void* memory = reserve(bytes);
  if (memory == nullptr) return environment_error("", "cannot reserve the device memory");
  return std::unique_ptr<Arena>(new Arena(static_cast<std::byte*>(memory), bytes));
}

Arena::~Arena() {
  ::munmap(memory_, bytes_);
  if (shadow_ != nullptr) ::munmap(shadow_, bytes_);
  if (races_ != nullptr) ::munmap(races_, bytes_ / 4 * sizeof(RaceCell));
  if (byte_races_ != nullptr) ::munmap(byte_races_, bytes_ * sizeof(RaceCell));
}

unsigned Arena::before_race_check(bool forget_all, bool bytes) {
  if (forget_all && races_ != nullptr)
    ::madvise(races_, bytes_ / 4 * sizeof(RaceCell), MADV_DONTNEED);
  if (forget_all && byte_races_ != nullptr)
    ::madvise(byte_races_, bytes_ * sizeof(RaceCell), MADV_DONTNEED);
  std::uint64_t used = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [address, entry] : entries_) used += entry.bytes;
  }
  if (bytes && used <= kMostBytesNoted) {
    if (byte_races_ == nullptr)
      byte_races_ = static_cast<RaceCell*>(reserve(bytes_ * sizeof(RaceCell)));
    if (byte_races_ != nullptr) return 0;
  }
  if (races_ == nullptr)
    races_ = static_cast<RaceCell*>(reserve(bytes_ / 4 * sizeof(RaceCell)));
  return 2;
}

std::byte* Arena::host(std::uint64_t address) const { return memory_ + (address - kGlobalBase); }

Result<void> Arena::insert(std::uint64_t address, Entry entry) {
  const std::uint64_t bytes = entry.bytes;
  entry.all_written = entry.read_only;
  entries_[address] = std::move(entry);
  if (shadow_ != nullptr) forget(shadow_ + (address - kGlobalBase), bytes);
  std::erase_if(freed_, [&](const Range& range) {
    return range.begin < address + bytes && address < range.end;
  });
  changed();
  return {};
}

Result<std::uint64_t> Arena::allocate(std::uint64_t bytes, bool read_only) {
  const std::scoped_lock lock(mutex_);
  bytes = std::max<std::uint64_t>(bytes, 1);
  return place(bytes, kAllocationAlignment, kGapBehind, {.bytes = bytes, .read_only = read_only});
}

// The first range that is long enough, with nobody's memory behind it.
Result<std::uint64_t> Arena::place(std::uint64_t bytes, std::uint64_t align, std::uint64_t gap,
                                   Entry entry) {
  const std::uint64_t first = up(kGlobalBase + first_gap_, align);
  std::uint64_t at = first;
  auto next = entries_.lower_bound(at);
  if (bytes > bytes_) next = entries_.end(), at = kGlobalBase + bytes_;
  for (; next != entries_.end() && next->first - at < bytes + gap; ++next)
    at = up(next->first + next->second.bytes + gap, align);
  if (at - kGlobalBase > bytes_ || bytes_ - (at - kGlobalBase) < bytes)
    return tl::unexpected(
        Error{ErrorCode::no_room, fmt::format("no {} bytes of device memory are free", bytes), {}});
  if (at == first) first_gap_ = up(at + bytes + gap, align) - kGlobalBase;
  TRY(insert(at, std::move(entry)));
  return at;
}

Result<std::uint64_t> Arena::allocate_in_heap(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes > heap_limit_ || heap_cost(bytes) > heap_limit_ - std::min(in_heap_, heap_limit_))
    return tl::unexpected(
        Error{ErrorCode::no_room,
              fmt::format("{} of the heap's {} bytes are in use, {} more are asked for", in_heap_,
                          heap_limit_, bytes),
              {}});
  const auto at =
      TRY(place(bytes, kHeapAlignment, kHeapBookkeeping, {.bytes = bytes, .in_heap = true}));
  in_heap_ += heap_cost(bytes);
  return at;
}

Result<void> Arena::limit_heap(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes < in_heap_)
    return tl::unexpected(Error{
        ErrorCode::in_use, fmt::format("a heap of {} bytes, {} are in use", bytes, in_heap_), {}});
  heap_limit_ = bytes;
  return {};
}

Result<void> Arena::allocate_at(std::uint64_t address, std::uint64_t bytes) {
  bytes = std::max<std::uint64_t>(bytes, 1);
  const std::scoped_lock lock(mutex_);
  if (address < kGlobalBase || address % kAllocationAlignment != 0 || bytes > bytes_ ||
      address - kGlobalBase > bytes_ - bytes)
    return tl::unexpected(
        Error{ErrorCode::invalid_argument,
              fmt::format("no allocation of {} bytes can lie at {:#x}", bytes, address),
              {}});
  const auto next = entries_.lower_bound(address);
  const bool meets_next = next != entries_.end() && next->first - address < bytes;
  const bool meets_last =
      next != entries_.begin() && address - std::prev(next)->first < std::prev(next)->second.bytes;
  if (meets_next || meets_last)
    return tl::unexpected(
        Error{ErrorCode::in_use, fmt::format("there is an allocation at {:#x}", address), {}});
  return insert(address, {.bytes = bytes});
}

Result<void> Arena::release(std::uint64_t address) { return release_where(address, false); }
Result<void> Arena::release_in_heap(std::uint64_t address) { return release_where(address, true); }

Result<void> Arena::release_where(std::uint64_t address, bool in_heap) {
  const std::scoped_lock lock(mutex_);
  const auto at = entries_.find(address);
  if (at == entries_.end() || at->second.in_heap != in_heap)
    return tl::unexpected(
        Error{ErrorCode::not_found, fmt::format("no allocation begins at {:#x}", address), {}});
  const std::uint64_t bytes = at->second.bytes;
  if (in_heap) in_heap_ -= heap_cost(bytes);
  freed_.push_back({address, address + bytes});
  if (freed_.size() > kMaxFreedRanges) freed_.pop_front();
  if (at->second.in_file)  // what others may have stays as it is
    static_cast<void>(map_pages(host(address), bytes, -1));
  else if (bytes >= kGiveBackBytes)
    forget(host(address), bytes);
  entries_.erase(at);
  first_gap_ = std::min(first_gap_, address - kGlobalBase);
  changed();
  return {};
}

Result<void> Arena::put_into(std::uint64_t address, int file, bool keep) {
  const std::scoped_lock lock(mutex_);
  const auto at = entries_.find(address);
  if (at == entries_.end())
    return tl::unexpected(
        Error{ErrorCode::not_found, fmt::format("no allocation begins at {:#x}", address), {}});
  const std::uint64_t end = pages(address + at->second.bytes);
  const auto next = std::next(at);
  if (address % kPage != 0 || at->second.in_file || (next != entries_.end() && next->first < end))
    return tl::unexpected(Error{ErrorCode::not_supported,
                                fmt::format("the {} bytes at {:#x} have no pages of their own",
                                            at->second.bytes, address),
                                {}});
  if (keep) {
    void* const there =
        ::mmap(nullptr, end - address, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (there == MAP_FAILED) return environment_error("mmap", std::strerror(errno));
    std::memcpy(there, host(address), at->second.bytes);
    ::munmap(there, end - address);
  }
  if (!map_pages(host(address), end - address, file))
    return environment_error("mmap", std::strerror(errno));
  at->second.in_file = true;
  at->second.all_written = true;  // by whom, nobody sees
  at->second.written.clear();
  changed();
  return {};
}

void Arena::note_written(std::uint64_t begin, Entry& entry, Range range) {
  if (entry.all_written) return;
  if (range.begin == begin && range.end == begin + entry.bytes) {
    entry.all_written = true;
    entry.written.clear();
    changed();
    return;
  }
  if (shadow_ != nullptr) {
    std::memset(shadow_ + (range.begin - kGlobalBase), 1, range.end - range.begin);
    return;
  }
  if (!entry.written.empty() && entry.written.back().end == range.begin)
    entry.written.back().end = range.end;
  else
    entry.written.push_back(range);
  if (entry.written.size() <= kMaxWrittenRanges) return;
  shadow_ = static_cast<std::uint8_t*>(reserve(bytes_));
  if (shadow_ == nullptr) {
    entry.written = {{begin, begin + entry.bytes}};  // no shadow, no check
    return;
  }
  for (auto& [at, other] : entries_) {
    for (const Range& one : other.written)
      std::memset(shadow_ + (one.begin - kGlobalBase), 1, one.end - one.begin);
    other.written.clear();
  }
}

Result<std::span<std::byte>> Arena::bytes_at(std::uint64_t address, std::uint64_t bytes,
                                             bool write) {
  const std::scoped_lock lock(mutex_);
  auto after = entries_.upper_bound(address);
  const bool found = after != entries_.begin() &&
                     address - std::prev(after)->first <= std::prev(after)->second.bytes &&
                     bytes <= std::prev(after)->second.bytes - (address - std::prev(after)->first);
  if (!found)
    return tl::unexpected(
        Error{ErrorCode::not_found,
              fmt::format("no allocation holds {} bytes at {:#x}", bytes, address),
              {}});
  if (write && bytes > 0)
    note_written(std::prev(after)->first, std::prev(after)->second, {address, address + bytes});
  return std::span<std::byte>(host(address), bytes);
}

void Arena::before_launch(bool track) {
  const std::scoped_lock lock(mutex_);
  if (!track) {
    bool any = false;
    for (auto& [at, entry] : entries_) {
      any = any || !entry.all_written;
      entry.all_written = true;
      entry.written.clear();
    }
    if (any) changed();
    return;
  }
  if (shadow_ == nullptr) {
    shadow_ = static_cast<std::uint8_t*>(reserve(bytes_));
    changed();
  }
  if (shadow_ == nullptr) return;
  for (auto& [at, entry] : entries_) {
    for (const Range& range : entry.written)
      std::memset(shadow_ + (range.begin - kGlobalBase), 1, range.end - range.begin);
    entry.written.clear();
  }
}

std::shared_ptr<const Table> Arena::table() {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t now = version();
  if (table_ != nullptr && table_version_ == now) return table_;
  auto made = std::make_shared<Table>();
  made->all.reserve(entries_.size());
  for (const auto& [at, entry] : entries_)
    made->all.push_back(
        {at, entry.bytes, entry.read_only, !entry.all_written && shadow_ != nullptr});
  table_ = std::move(made);
  table_version_ = now;
  return table_;
}

Span Arena::span_of(const Allocation& allocation, bool tracked) const {
  return {allocation.begin, allocation.bytes, host(allocation.begin),
          tracked && allocation.is_tracked ? shadow_ + (allocation.begin - kGlobalBase) : nullptr,
          allocation.read_only};
}

Arena::Near Arena::describe(std::uint64_t address, std::uint32_t size) {
  const std::scoped_lock lock(mutex_);
  if (address < 4096) return {false, "a null pointer, or an offset from one"};
  if (address < kGlobalBase || address - kGlobalBase >= bytes_)
    return {false, "no device memory lies there (a host pointer?)"};
  for (auto range = freed_.rbegin(); range != freed_.rend(); ++range)
    if (address >= range->begin && address < range->end)
      return {true, fmt::format("{} bytes into a {}-byte allocation at {:#x} that was freed",
                                address - range->begin, range->end - range->begin, range->begin)};
  const auto next = entries_.upper_bound(address);
  std::uint64_t before = ~std::uint64_t{0}, after = ~std::uint64_t{0};
  if (next != entries_.begin()) {
    const auto& [begin, entry] = *std::prev(next);
    if (address - begin < entry.bytes)
      return {false, fmt::format("{} bytes reach over the end of a {}-byte allocation at {:#x}",
                                 size, entry.bytes, begin)};
    before = address - (begin + entry.bytes);
  }
  if (next != entries_.end()) after = next->first - address;
  if (before == ~std::uint64_t{0} && after == ~std::uint64_t{0})
    return {false, "nothing is allocated"};
  if (before <= after) {
    const auto& [begin, entry] = *std::prev(next);
    return {false, fmt::format("{} bytes behind the end of a {}-byte allocation at {:#x}", before,
                               entry.bytes, begin)};
  }
  return {false, fmt::format("{} bytes before a {}-byte allocation at {:#x}", after,
                             next->second.bytes, next->first)};
}

}  // namespace partita::ptx
