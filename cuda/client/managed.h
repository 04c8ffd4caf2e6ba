// Managed memory: pages of the program at the addresses that the device has for the same bytes, or
// (mapped host memory) memory of the program that the device has under an address of its own.
// Neither sees what the other writes, so whoever looks next is given it: what the program changed
// goes to the device before the device's next work, what the device has comes back when the program
// has waited for it. That is what devices without concurrentManagedAccess ask of programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "client/arena.h"

namespace partita::remote::client {

inline constexpr std::uint64_t kHostPage = 4096;

// Pages of the program at this address, all zero. False: something else of the program's is there.
bool map_pages(std::uint64_t begin, std::uint64_t end);
void unmap_pages(std::uint64_t begin, std::uint64_t end);

// Thread rule: one thread at a time; the program writes to the pages as it likes.
class Managed {
 public:
  Managed() = default;
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() { clear(); }

  // The program gets pages for this range, all zero; two ranges may share a page at their ends.
  // False, with nothing changed: something of the program's lies there.
  bool map(const Block& range);
  // The program's own memory `host` is what the device has there; the device is given all of it.
  void adopt(const Block& range, std::byte* host);
  bool unmap(std::uint64_t address);  // false: none begins here
  void clear();
  // In the child of a fork: the pages stay as they are, and are nobody's.
  void forget();

  bool empty() const { return ranges_.empty(); }
  std::optional<Block> find(std::uint64_t address) const;  // the range that holds it
  std::vector<Block> ranges() const;

  // What the program changed since it was last in agreement with the device, by whole pages of a
  // range, or exactly: where the device may be changing what lies beside it. It is taken for given
  // to the device, from bytes(). `adopted`: of such ranges only.
  std::vector<Block> take_changes(bool exactly = false, bool adopted = false);
  // These bytes as they were when their changes were last taken or given.
  std::span<const std::byte> bytes(const Block& part) const;
  // A part of a range and what else lies of it in the words of 8 bytes there.
  Block words(const Block& part) const;
  // What the device has in a whole range now. What the program changed meanwhile stays a change.
  // False: both changed the same byte, each in its own way; the program's stays.
  bool give(std::uint64_t address, std::span<const std::byte> device);

 private:
  struct Range {
    std::uint64_t bytes = 0;
    std::byte* host = nullptr;
    std::vector<std::byte> agreed;
    bool adopted = false, fresh = false;  // fresh: the device has nothing of it
  };
  bool take_page(std::uint64_t page);
  void drop_page(std::uint64_t page);

  std::map<std::uint64_t, Range> ranges_;
  std::map<std::uint64_t, int> ends_;  // first and last pages of ranges: how many have them
};

}  // namespace partita::remote::client
