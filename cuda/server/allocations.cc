#include "server/allocations.h"

#include <iterator>

namespace partita::remote::server {

bool Allocations::holds(std::uint64_t address, std::uint64_t bytes) const {
  if (bytes == 0) return true;
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const auto& [begin, range] = *std::prev(after);
  const std::uint64_t offset = address - begin;
  return !range.going && offset < range.bytes && bytes <= range.bytes - offset;
}

bool Allocations::holds_rows(std::uint64_t address, std::uint64_t width, std::uint64_t pitch,
                             std::uint64_t rows) const {
  if (width == 0 || rows == 0) return true;
  if (rows > 1 && pitch < width) return false;
  std::uint64_t before = 0, all = 0;
  if (__builtin_mul_overflow(rows - 1, pitch, &before)) return false;
  if (__builtin_add_overflow(before, width, &all)) return false;
  return holds(address, all);
}

Allocations::Meets Allocations::meets(std::uint64_t address, std::uint64_t bytes) const {
  Meets met = Meets::nothing;
  auto at = ranges_.upper_bound(address);
  if (at != ranges_.begin() && address - std::prev(at)->first < std::prev(at)->second.bytes) --at;
  for (; at != ranges_.end(); ++at) {
    if (at->first >= address && at->first - address >= bytes) break;
    if (!at->second.going) return Meets::live;
    met = Meets::going;
  }
  return met;
}

void Allocations::add(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner) {
  ranges_.insert_or_assign(address, Range{bytes, owner, false});
}

std::optional<std::uint64_t> Allocations::leave(std::uint64_t address) {
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.going || found->second.owner != 0) return {};
  found->second.going = true;
  return found->second.bytes;
}

void Allocations::remove(std::uint64_t address) { ranges_.erase(address); }

void Allocations::remove_of(std::uint64_t owner) {
  std::erase_if(ranges_, [owner](const auto& entry) { return entry.second.owner == owner; });
}

}  // namespace partita::remote::server
