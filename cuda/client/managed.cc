#include "client/managed.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace partita::remote::client {
namespace {

std::uint64_t page_of(std::uint64_t address) { return address / kHostPage * kHostPage; }

std::byte* at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// Calls `part(offset, length)` for each page, or what of it belongs to the range.
template <class Part>
void by_pages(std::uint64_t address, std::uint64_t bytes, const Part& part) {
  for (std::uint64_t offset = 0; offset < bytes;) {
    const std::uint64_t next = page_of(address + offset) + kHostPage - address;
    const std::uint64_t length = std::min(next, bytes) - offset;
    part(offset, length);
    offset += length;
  }
}

}  // namespace

bool map_pages(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return true;
  void* const made =
      ::mmap(at(begin), end - begin, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (made == at(begin)) return true;
  if (made != MAP_FAILED) ::munmap(made, end - begin);  // a kernel older than the flag
  return false;
}

void unmap_pages(std::uint64_t begin, std::uint64_t end) {
  if (begin < end) ::munmap(at(begin), end - begin);
}

bool Managed::take_page(std::uint64_t page) {
  if (!ends_.contains(page) && !map_pages(page, page + kHostPage)) return false;
  ++ends_[page];
  return true;
}

void Managed::drop_page(std::uint64_t page) {
  const auto found = ends_.find(page);
  if (--found->second > 0) return;
  ends_.erase(found);
  unmap_pages(page, page + kHostPage);
}

bool Managed::map(const Block& range) {
  const std::uint64_t first = page_of(range.address);
  const std::uint64_t last = page_of(range.address + range.bytes - 1);
  if (!take_page(first)) return false;
  if (last != first && !take_page(last)) {
    drop_page(first);
    return false;
  }
  if (!map_pages(first + kHostPage, last)) {
    drop_page(first);
    if (last != first) drop_page(last);
    return false;
  }
  std::memset(at(range.address), 0, std::min(range.bytes, kHostPage));
  ranges_[range.address] = {range.bytes, at(range.address), std::vector<std::byte>(range.bytes)};
  return true;
}

void Managed::adopt(const Block& range, std::byte* host) {
  ranges_[range.address] = {range.bytes, host, std::vector<std::byte>(range.bytes), true, true};
}

bool Managed::unmap(std::uint64_t address) {
  const auto found = ranges_.find(address);
  if (found == ranges_.end()) return false;
  const std::uint64_t first = page_of(address);
  const std::uint64_t last = page_of(address + found->second.bytes - 1);
  const bool adopted = found->second.adopted;
  ranges_.erase(found);
  if (adopted) return true;
  unmap_pages(first + kHostPage, last);
  drop_page(first);
  if (last != first) drop_page(last);
  return true;
}

void Managed::clear() {
  while (!ranges_.empty()) unmap(ranges_.begin()->first);
}

void Managed::forget() {
  ranges_.clear();
  ends_.clear();
}

std::optional<Block> Managed::find(std::uint64_t address) const {
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return std::nullopt;
  --next;
  if (address - next->first >= next->second.bytes) return std::nullopt;
  return Block{next->first, next->second.bytes};
}

std::vector<Block> Managed::ranges() const {
  std::vector<Block> all;
  for (const auto& [address, range] : ranges_) all.push_back({address, range.bytes});
  return all;
}

std::vector<Block> Managed::take_changes(bool exactly, bool adopted) {
  std::vector<Block> changes;
  const auto add = [&](std::uint64_t range, std::uint64_t from, std::uint64_t length) {
    const bool goes_on = !changes.empty() && changes.back().address >= range &&
                         changes.back().address + changes.back().bytes == from;
    if (goes_on)
      changes.back().bytes += length;
    else
      changes.push_back({from, length});
  };
  for (auto& [address, range] : ranges_) {
    if (adopted && !range.adopted) continue;
    by_pages(address, range.bytes, [&](std::uint64_t offset, std::uint64_t length) {
      const std::byte* const now = range.host + offset;
      std::byte* const agreed = range.agreed.data() + offset;
      if (!range.fresh && std::memcmp(now, agreed, length) == 0) return;
      if (!exactly || range.fresh) add(address, address + offset, length);
      for (std::uint64_t i = 0; exactly && !range.fresh && i < length; ++i)
        if (now[i] != agreed[i]) add(address, address + offset + i, 1);
      std::memcpy(agreed, now, length);
    });
    range.fresh = false;
  }
  return changes;
}

std::span<const std::byte> Managed::bytes(const Block& part) const {
  const auto range = std::prev(ranges_.upper_bound(part.address));
  return {range->second.agreed.data() + (part.address - range->first), part.bytes};
}

Block Managed::words(const Block& part) const {
  constexpr std::uint64_t kWord = 8;
  const auto& [begin, range] = *std::prev(ranges_.upper_bound(part.address));
  const std::uint64_t first = std::max(part.address / kWord * kWord, begin);
  const std::uint64_t end = (part.address + part.bytes + kWord - 1) / kWord * kWord;
  return {first, std::min(end, begin + range.bytes) - first};
}

bool Managed::give(std::uint64_t address, std::span<const std::byte> device) {
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.fresh) return true;
  bool agree = true;
  std::byte* const host = found->second.host;
  std::byte* const agreed = found->second.agreed.data();
  by_pages(address, std::min(found->second.bytes, device.size()),
           [&](std::uint64_t offset, std::uint64_t length) {
             std::byte* const now = host + offset;
             if (std::memcmp(now, agreed + offset, length) != 0) {
               for (std::uint64_t i = offset; i < offset + length; ++i) {
                 std::byte& one = now[i - offset];
                 if (one == agreed[i]) one = device[i];
                 agree = agree && (one == device[i] || device[i] == agreed[i]);
               }
             } else if (std::memcmp(now, device.data() + offset, length) != 0) {
               std::memcpy(now, device.data() + offset, length);
             }
             std::memcpy(agreed + offset, device.data() + offset, length);
           });
  return agree;
}

}  // namespace partita::remote::client
