// Arena: the device memory of a machine. One reservation of address space; allocations in it are
// known by address, freed ranges are remembered (the last kMaxFreedRanges) so that a fault can say
// what was there. Thread-safe. Executors work on a Table, an immutable copy of the allocations.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ptx/machine.h"
#include "ptx/program.h"

namespace partita::ptx {

inline constexpr std::size_t kMaxFreedRanges = 4096;
inline constexpr std::uint64_t kHeapBookkeeping = 64;

struct Allocation {
  std::uint64_t begin = 0, bytes = 0;
  bool read_only = false;
  bool is_tracked = false;  // the shadow knows which bytes were written
};

struct Table {
  std::vector<Allocation> all = {};  // by address
  // The allocation that holds the address; nullptr where none does.
  const Allocation* find(std::uint64_t address) const;
};

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> open(std::uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  Result<std::uint64_t> allocate(std::uint64_t bytes, bool read_only = false);
  Result<void> allocate_at(std::uint64_t address, std::uint64_t bytes);
  Result<void> release(std::uint64_t address);
  // What kernels allocate, which only they release; kHeapBookkeeping bytes more of the limit each.
  Result<std::uint64_t> allocate_in_heap(std::uint64_t bytes);
  Result<void> release_in_heap(std::uint64_t address);
  Result<void> limit_heap(std::uint64_t bytes);
  Result<void> put_into(std::uint64_t address, int file, bool keep);
  // The bytes of one allocation; `write` notes them as initialised.
  Result<std::span<std::byte>> bytes_at(std::uint64_t address, std::uint64_t bytes, bool write);

  // Who touched a word of 4 bytes last, or a byte: exec_races.cc. nullptr where there is no room.
  struct RaceCell {
    std::uint64_t writer = 0, reader = 0;
    std::uint32_t writer_tick = 0, reader_tick = 0;  // of the warp
  };
  // `shift`: 2 for words, 0 for bytes.
  RaceCell* race_cell(std::uint64_t address, unsigned shift) const {
    RaceCell* const cells = shift == 0 ? byte_races_ : races_;
    return cells == nullptr ? nullptr : cells + ((address - kGlobalBase) >> shift);
  }
  // Before a launch that is checked for them; bytes where that is wanted and does not take too much
  // memory. The shift.
  unsigned before_race_check(bool forget_all, bool bytes);

  // Before a launch: with the check, the shadow is brought up to date; without it what the launch
  // writes is not seen, so that all there is counts as initialised from then on.
  void before_launch(bool track);

  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<const Table> table();
  Span span_of(const Allocation& allocation, bool tracked) const;
  std::byte* host(std::uint64_t address) const;
  // What lies near a failed access: "4 bytes behind the end of a 1024-byte allocation at ...".
  struct Near {
    bool freed = false;
    std::string text = {};
  };
  Near describe(std::uint64_t address, std::uint32_t size);

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  struct Entry {
    std::uint64_t bytes = 0;
    bool read_only = false;
    bool all_written = false;         // nothing to track any more
    bool in_file = false;
    bool in_heap = false;
    std::vector<Range> written = {};  // by the host, not yet in the shadow
  };

  Arena(std::byte* memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes) {}
  Result<std::uint64_t> place(std::uint64_t bytes, std::uint64_t align, std::uint64_t gap,
                              Entry entry);
  Result<void> release_where(std::uint64_t address, bool in_heap);
  Result<void> insert(std::uint64_t address, Entry entry);
  void changed() { version_.fetch_add(1, std::memory_order_release); }
  void note_written(std::uint64_t begin, Entry& entry, Range range);

  std::byte* const memory_;
  const std::uint64_t bytes_;
  std::uint8_t* shadow_ = nullptr;
  RaceCell *races_ = nullptr, *byte_races_ = nullptr;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::deque<Range> freed_;
  std::atomic<std::uint64_t> version_ = 1;
  std::shared_ptr<const Table> table_;
  std::uint64_t table_version_ = 0;
  std::uint64_t first_gap_ = 0;  // below here nothing is free
  std::uint64_t heap_limit_ = kHeapBytes, in_heap_ = 0;
};

}  // namespace partita::ptx
