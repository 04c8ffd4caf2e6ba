#include "client/arena.h"

#include <algorithm>
#include <bit>

namespace partita::remote::client {
namespace {

constexpr std::uint64_t kAlign = 512;             // what cudaMalloc gives
constexpr std::uint64_t kSharedFrom = 64 * 1024;  // granules from this size are shared
constexpr std::uint64_t kCellsAtLeast = 8;

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::Arena(const ArenaShape& shape) : shape_(shape), cursor_(shape.begin) {
  shape_.granule = std::max<std::uint64_t>(shape_.granule, 1);
}

// The lowest gap that begins in [from, to).
std::optional<std::uint64_t> Arena::gap(std::uint64_t bytes, std::uint64_t align,
                                        std::uint64_t from, std::uint64_t to) const {
  std::uint64_t at = from;
  auto next = ranges_.upper_bound(at);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    at = std::max(at, before->first + before->second);
  }
  const std::uint64_t end = shape_.begin + shape_.bytes;
  while (at < to && at < end) {
    const std::uint64_t free_to = next == ranges_.end() ? end : next->first;
    const std::uint64_t begin = rounded(at, align);
    if (begin < free_to && free_to - begin >= bytes) return begin;
    if (next == ranges_.end()) break;
    at = next->first + next->second;
    ++next;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Arena::find_range(std::uint64_t length, std::uint64_t align) {
  if (length > shape_.bytes || align > shape_.bytes) return std::nullopt;
  auto at = gap(length, align, cursor_, shape_.begin + shape_.bytes);
  if (!at) at = gap(length, align, shape_.begin, cursor_);
  if (!at) return std::nullopt;
  ranges_[*at] = length;
  cursor_ = *at + length;
  return at;
}

std::optional<std::uint64_t> Arena::take_range(std::uint64_t bytes, std::uint64_t gap_behind,
                                               std::uint64_t align) {
  if (bytes > free_bytes() || bytes > shape_.bytes) return std::nullopt;
  const auto at = find_range(bytes + gap_behind, align);
  if (at) used_ += bytes;
  return at;
}

std::optional<std::uint64_t> Arena::reserve(std::uint64_t bytes, std::uint64_t align) {
  if (bytes == 0 || bytes % shape_.granule != 0) return std::nullopt;
  const auto at = find_range(bytes, std::max(align, shape_.granule));
  if (at) reserved_[*at] = bytes;
  return at;
}

bool Arena::reserve_at(const Block& range) {
  const auto [at, bytes] = range;
  if (bytes == 0 || (at | bytes) % shape_.granule != 0 || !contains(at)) return false;
  if (gap(bytes, shape_.granule, at, at + 1) != at) return false;
  ranges_[at] = reserved_[at] = bytes;
  return true;
}

bool Arena::map(const Block& part) {
  auto range = reserved_.upper_bound(part.address);
  if (range == reserved_.begin() || part.bytes == 0 || part.bytes > free_bytes()) return false;
  --range;
  const std::uint64_t begin = part.address - range->first;
  if (begin > range->second || part.bytes > range->second - begin) return false;
  const auto next = blocks_.lower_bound(part.address);
  const bool taken = find(part.address).has_value() ||
                     (next != blocks_.end() && next->first < part.address + part.bytes);
  if (taken || (part.address | part.bytes) % shape_.granule != 0) return false;
  blocks_[part.address] = {.bytes = part.bytes, .mapped = true};
  used_ += part.bytes;
  return true;
}

bool Arena::unmap(const Block& mapped) {
  const auto found = blocks_.find(mapped.address);
  if (found == blocks_.end() || !found->second.mapped || found->second.bytes != mapped.bytes)
    return false;
  used_ -= mapped.bytes;
  blocks_.erase(found);
  return true;
}

bool Arena::unreserve(std::uint64_t address, std::uint64_t bytes) {
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != bytes) return false;
  const auto inside = blocks_.lower_bound(address);
  if (inside != blocks_.end() && inside->first < address + bytes) return false;
  reserved_.erase(found);
  late_.push_back({address, {}});
  return true;
}

std::optional<Arena::Given> Arena::allocate(std::uint64_t bytes, std::uint64_t align) {
  if (bytes == 0 || bytes > shape_.bytes) return std::nullopt;
  const std::uint64_t unit = std::max(kAlign, shape_.granule);
  if (shape_.granule >= kSharedFrom && align == 0) {
    const std::uint64_t cell = std::bit_ceil(rounded(bytes, kAlign));
    if (cell * kCellsAtLeast <= shape_.granule) return allocate_small(bytes, cell);
  }
  const std::uint64_t length = rounded(bytes, unit);
  // Between blocks of small granules something stays free, so that reaching over the end shows.
  std::uint64_t gap_behind = shape_.granule < kSharedFrom ? unit : 0;
  if (bytes >= kPage && gap_behind > 0) {  // pages of its own, which others may be let into
    align = std::max(align, kPage);
    gap_behind = rounded(length + gap_behind, kPage) - length;
  }
  const auto address = take_range(length, gap_behind, std::max<std::uint64_t>(align, 1));
  if (!address) return std::nullopt;
  blocks_[*address] = {bytes, 0};
  // With a small granule the server hears the exact size, so that it sees accesses behind the end.
  const std::uint64_t told = rounded(bytes, shape_.granule);
  return Given{*address, Block{*address, told}};
}

std::optional<Arena::Given> Arena::allocate_small(std::uint64_t bytes, std::uint64_t cell) {
  std::vector<std::uint64_t>& open = open_[cell];
  Given given;
  if (open.empty()) {
    const auto range = take_range(shape_.granule, 0);
    if (!range) return std::nullopt;
    Pool pool{.range = *range, .cell = cell, .free = {}};
    for (std::uint64_t i = shape_.granule / cell; i-- > 0;)
      pool.free.push_back(static_cast<std::uint32_t>(i));
    pools_[*range] = std::move(pool);
    open.push_back(*range);
    given.range = Block{*range, shape_.granule};
  }
  Pool& pool = pools_[open.back()];
  given.address = pool.range + pool.free.back() * cell;
  pool.free.pop_back();
  ++pool.used;
  blocks_[given.address] = {bytes, pool.range};
  if (pool.free.empty()) open.pop_back();
  return given;
}

void Arena::drop_range(std::uint64_t address, std::uint64_t bytes, bool late) {
  used_ -= bytes;
  if (late) {
    late_.push_back({address, {}});
  } else {
    ranges_.erase(address);
  }
}

Arena::Taken Arena::release(std::uint64_t address, bool late) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.mapped) return {};
  const Entry entry = found->second;
  blocks_.erase(found);
  Taken taken{.known = true, .range = {}, .block = {address, entry.bytes}};
  if (entry.pool == 0) {
    const std::uint64_t length = rounded(entry.bytes, std::max(kAlign, shape_.granule));
    taken.range = Block{address, length};
    drop_range(address, length, late);
    return taken;
  }
  Pool& pool = pools_[entry.pool];
  const auto cell = static_cast<std::uint32_t>((address - pool.range) / pool.cell);
  --pool.used;
  if (late) {
    late_.push_back({entry.pool, cell});
  } else {
    give_back(pool, cell);
  }
  return taken;
}

void Arena::recycle(std::size_t count) {
  count = std::min(count, late_.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (late_[i].cell) {
      give_back(pools_[late_[i].range], *late_[i].cell);
    } else {
      ranges_.erase(late_[i].range);
    }
  }
  late_.erase(late_.begin(), late_.begin() + static_cast<std::ptrdiff_t>(count));
}

void Arena::give_back(Pool& pool, std::uint32_t cell) {
  pool.free.push_back(cell);
  if (pool.free.size() == 1) open_[pool.cell].push_back(pool.range);
}

std::optional<Block> Arena::find(std::uint64_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return std::nullopt;
  --next;
  if (address - next->first >= next->second.bytes) return std::nullopt;
  return Block{next->first, next->second.bytes};
}

bool Arena::set_aside(std::uint64_t bytes) {
  if (bytes > shape_.quota - (used_ - aside_)) return false;
  used_ += bytes - aside_;
  aside_ = bytes;
  return true;
}

}  // namespace partita::remote::client
