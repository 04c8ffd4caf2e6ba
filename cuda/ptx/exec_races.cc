// Races on shared memory, copies that nobody waited for, reads of shared memory that nobody wrote:
// what is noted of each access, where that is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ptx/barrier_word.h"
#include "ptx/control.h"
#include "ptx/exec.h"
#include "ptx/memory_ops.h"

namespace partita::ptx {
namespace {

// In place of an epoch: an asynchronous copy that its thread has not waited for.
constexpr std::uint64_t kInFlight = 0xffff'ffff;

std::uint64_t entry_of(const Warp& w, unsigned lane, bool strong) {
  return static_cast<std::uint64_t>(*w.race.epoch) << 32 |
         static_cast<std::uint64_t>(w.race.tick) << kTickShift | (strong ? kStrongBit : 0) |
         (w.index * kLanes + lane);
}
bool in_flight(std::uint64_t entry) { return entry >> 32 == kInFlight; }
bool of_warp(std::uint64_t thread, std::uint32_t warp) {
  return thread >= kSeveralOfWarp ? thread == kSeveralOfWarp + warp : thread / kLanes == warp;
}

// Whether the lane knows, by what happened since the last barrier of the block, what `thread` of it
// (or several) did at a tick.
bool knows(Warp& w, unsigned lane, std::uint64_t thread, std::uint32_t tick) {
  Orders& orders = w.block->orders;
  const std::uint32_t me = w.index * kLanes + lane;
  if (thread >= kSeveralOfWarp)  // who they are is not known
    return (of_warp(thread, w.index) && tick < w.race.met) || orders.knows_any(w, me);
  const auto other = static_cast<std::uint32_t>(thread);
  return (of_warp(thread, w.index) && orders.met(w, lane, other, tick)) ||
         orders.knows(w, me, other, tick);
}

// One access of one lane, and what it meets.
class Access {
 public:
  Access(const Op* op, Warp& w, unsigned lane, bool write)
      : w_(w),
        now_(entry_of(w, lane, (op->flags & kStrong) != 0)),
        me_(w.index * kLanes + lane),
        write_(write),
        copies_((op->flags & kCopying) != 0) {}

  void at(std::uint64_t& writer, std::uint64_t& reader) {
    if (meets(writer)) found(writer, true);
    if (write_) {
      if (other_ == 0 && meets(reader)) found(reader, false);
      writer = copies_ ? kInFlight << 32 | me_ : now_;
      return;
    }
    const std::uint64_t both = reader & now_ & kStrongBit;
    const std::uint64_t before = reader & kThreadBits;
    if (before == me_ || is_before(reader))
      reader = now_;
    else if (of_warp(before, w_.index))
      reader = (now_ & ~(kThreadBits | kStrongBit)) | both | (kSeveralOfWarp + w_.index);
    else
      reader = now_ >> 32 << 32 | both | kSeveralReaders;
  }

  bool conflicts() const { return other_ != 0; }
  bool with_plain_write() const { return with_write_ && !in_flight(other_); }
  std::string about() const {
    const std::uint64_t thread = other_ & kThreadBits;
    const std::string who =
        thread >= kSeveralOfWarp ? "several threads" : fmt::format("thread {}", thread);
    if (in_flight(other_))
      return fmt::format("{} of the block copies to it (cp.async) and has not waited for that",
                         who);
    const bool mixed = ((other_ ^ now_) & kStrongBit) != 0;
    return fmt::format("{} of the block {} it with no barrier between{}", who,
                       with_write_ ? "wrote" : "read",
                       mixed ? ", one of both by an atomic or volatile access" : "");
  }

 private:
  void found(std::uint64_t entry, bool wrote) {
    other_ = entry;
    with_write_ = wrote;
  }
  bool meets(std::uint64_t entry) {
    if (in_flight(entry)) return !copies_ || (entry & kThreadBits) != me_;
    return entry != 0 && (entry & kThreadBits) != me_ && (entry & now_ & kStrongBit) == 0 &&
           !is_before(entry);
  }
  bool is_before(std::uint64_t entry) {
    if (entry >> 32 != now_ >> 32) return !in_flight(entry);
    const std::uint64_t thread = entry & kThreadBits;
    return knows(w_, me_ % kLanes, thread, static_cast<std::uint32_t>(entry) >> kTickShift);
  }

  Warp& w_;
  std::uint64_t now_, other_ = 0;
  std::uint32_t me_;
  bool write_, copies_, with_write_ = false;
};

// Whether a store of one element leaves the memory as it is: writers of one value do not race.
bool stores_the_same(const Op* op, Warp& w, unsigned lane, const auto* offset,
                     const std::byte* memory) {
  if (op->size > 8 || (op->flags & (kStrong | kCopying)) != 0) return false;
  const auto value = [&](unsigned of) {
    std::uint64_t bits = 0;  // registers of 16, 32 and 64 bits: the low bytes are what is stored
    const std::uint32_t bytes = std::max(op->size, 2u);
    std::memcpy(&bits, w.registers + op->d + of * bytes, op->size);
    return bits;
  };
  std::uint64_t there = 0;
  std::memcpy(&there, memory, op->size);
  for (unsigned i = 0; i < lane; ++i)  // an earlier lane of this store
    if ((w.mask >> i & 1) != 0 && offset[i] == offset[lane]) there = value(i);
  return there == value(lane);
}

bool in_its_array(const Op* op, Warp& w, unsigned lane, std::uint32_t offset, bool write) {
  const ArrayBounds array = w.arrays[op->span];
  if (offset >= array.begin && offset + op->size <= array.end) return true;
  return report(op, w,
                {.kind = FaultKind::out_of_bounds,
                 .lane = lane,
                 .address = kSharedWindow + offset,
                 .size = op->size,
                 .write = write,
                 .about = fmt::format("the variable in shared memory that it begins from has {} "
                                      "bytes at {:#x}; what lies there belongs to another",
                                      array.end - array.begin, kSharedWindow + array.begin)});
}

// Cells of global memory, of one launch: its number << 48 | block << 28 | time of the block << 12
// | kStrongBit | thread. Threads that read may be several of a block, blocks too.
constexpr unsigned kTimeShift = 12, kBlockShift = 28, kSerialShift = 48;
constexpr std::uint32_t kMaxTime = (1u << (kBlockShift - kTimeShift)) - 1;
constexpr std::uint64_t kSeveralBlocks = kMaxRaceBlocks - 1;  // the last block counts as several

// Accesses of the block so far are before this time of it, later ones are not.
std::uint32_t end_time(Block& block) {
  if (std::exchange(block.time_used, false)) ++block.time;
  return block.time;
}
void update_time(Block& block) {
  if (block.time_of_epoch == block.epoch) return;
  block.time_of_epoch = block.epoch;
  block.barrier_time = end_time(block);
}

class GlobalAccess {
 public:
  GlobalAccess(const Op* op, Warp& w, unsigned lane, bool write)
      : w_(w), me_(w.index * kLanes + lane), write_(write) {
    now_ = (w.block->run->serial % kRaceSerials) << kSerialShift | w.block->linear << kBlockShift |
           static_cast<std::uint64_t>(w.block->time) << kTimeShift |
           ((op->flags & kStrong) != 0 ? kStrongBit : 0) | me_;
  }

  // Blocks run at the same time: each notes its access before it looks for others'.
  void at(Arena::RaceCell& cell) {
    const Seen reader = {get(cell.reader), get(cell.reader_tick)};
    Seen writer = {get(cell.writer), get(cell.writer_tick)};
    if (write_) {
      writer.entry = __atomic_exchange_n(&cell.writer, now_, __ATOMIC_SEQ_CST);
      set(cell.writer_tick, w_.race.tick);
    } else {
      __atomic_store_n(&cell.reader, read_by(reader), __ATOMIC_SEQ_CST);
      set(cell.reader_tick, w_.race.tick);
      writer.entry = get(cell.writer);
    }
    if (meets(writer)) {
      other_ = writer.entry;
      with_write_ = true;
    }
    if (!write_ || other_ != 0) return;
    if (const Seen last = {get(cell.reader), reader.tick, true}; meets(last)) other_ = last.entry;
  }

  bool conflicts() const { return other_ != 0; }
  bool with_plain_write() const { return with_write_; }
  std::string about(const RunCore& run) const {
    const std::uint64_t block = block_of(other_);
    const std::uint64_t x = run.launch.grid.x, y = run.launch.grid.y;
    const std::string who = block == kSeveralBlocks ? "threads of several blocks"
                            : (other_ & kThreadBits) >= kSeveralOfWarp
                                ? fmt::format("several threads of block ({},{},{})", block % x,
                                              block / x % y, block / x / y)
                                : fmt::format("thread {} of block ({},{},{})", other_ & kThreadBits,
                                              block % x, block / x % y, block / x / y);
    return fmt::format("{} {} it in the same launch, and nothing orders the two", who,
                       with_write_ ? "wrote" : "read");
  }

 private:
  struct Seen {
    std::uint64_t entry = 0;
    std::uint32_t tick = 0;
    bool read = false;
  };
  template <class T>
  static T get(const T& of) {
    return __atomic_load_n(&of, __ATOMIC_SEQ_CST);
  }
  template <class T>
  static void set(T& to, T value) {
    __atomic_store_n(&to, value, __ATOMIC_RELAXED);
  }
  static std::uint64_t block_of(std::uint64_t entry) {
    return entry >> kBlockShift & (kMaxRaceBlocks - 1);
  }
  bool is_mine(std::uint64_t entry) const {
    return block_of(entry) == w_.block->linear && (entry & kThreadBits) == me_;
  }
  bool meets(const Seen& seen) const {
    return seen.entry >> kSerialShift == now_ >> kSerialShift && !is_mine(seen.entry) &&
           (seen.entry & now_ & kStrongBit) == 0 && !is_before(seen);
  }
  bool is_before(const Seen& seen) const {
    const std::uint64_t entry = seen.entry;
    if (entry == 0 || entry >> kSerialShift != now_ >> kSerialShift) return true;
    Block& block = *w_.block;
    const auto time = static_cast<std::uint32_t>(entry >> kTimeShift) & kMaxTime;
    const std::uint64_t other = block_of(entry);
    if (other == kSeveralBlocks) return block.has_acquired;
    if (other != block.linear)
      return block.has_acquired &&
             (time < block.run->published[other].load(std::memory_order_acquire) ||
              (seen.read && time < block.run->reads_published[other].load()));
    return time < block.barrier_time ||
           knows(w_, me_ % kLanes, entry & kThreadBits, seen.tick);
  }
  std::uint64_t read_by(const Seen& seen) const {
    const std::uint64_t reader = seen.entry;
    if (is_before(seen) || is_mine(reader)) return now_;
    const std::uint64_t both = ~kStrongBit | (reader & now_ & kStrongBit);
    const std::uint64_t several = (now_ | kThreadBits) & both;
    if (block_of(reader) != w_.block->linear) return several | kSeveralBlocks << kBlockShift;
    return of_warp(reader & kThreadBits, w_.index)
               ? (several & ~kThreadBits) | (kSeveralOfWarp + w_.index)
               : several;
  }

  Warp& w_;
  std::uint64_t now_ = 0, other_ = 0;
  std::uint32_t me_;
  bool write_, with_write_ = false;
};

// The copies of a thread that `done` names are there: it wrote them now.
void land(Warp& w, unsigned lane, const auto& done) {
  Block& block = *w.block;
  const std::uint32_t thread = w.index * kLanes + lane;
  std::erase_if(block.copies, [&](const Block::Copy& copy) {
    if (copy.thread != thread || !done(copy)) return false;
    for (std::uint32_t cell = copy.first; cell <= copy.last; ++cell)
      if (in_flight(block.writers[cell]) && (block.writers[cell] & kThreadBits) == thread)
        block.writers[cell] = entry_of(w, lane, false);
    return true;
  });
}

// Where what threads leave for each other lies: at a barrier in memory by phase, who waits finds
// that of the phase that is over.
std::uint64_t meeting_place(const Op* op, const Warp& w, std::uint32_t offset) {
  if ((op->flags & kPhased) == 0) return kSharedWindow + offset;
  std::uint64_t word = 0;
  std::memcpy(&word, w.shared + offset, sizeof word);
  const std::uint64_t phase = word >> barrier_word::kPhaseAt & 1;
  return kSharedWindow + offset + 1 + ((op->flags & kRelease) != 0 ? phase : phase ^ 1);
}

}  // namespace

bool note_shared(const Op* op, Warp& w, const std::uint32_t* offset, bool write) {
  Block& block = *w.block;
  const bool strong = (op->flags & kStrong) != 0, releases = (op->flags & kRelease) != 0;
  const bool updates = (op->flags & kUpdate) != 0, phased = (op->flags & kPhased) != 0;
  const bool learns = strong && (phased ? !releases : !write || updates);
  const bool tells = strong && write && (!phased || releases);
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    if (!in_its_array(op, w, lane, offset[lane], write)) return false;
    const std::uint64_t place = kSharedWindow + offset[lane];
    if (learns) block.orders.acquire(w, lane, meeting_place(op, w, offset[lane]));
    Access access(op, w, lane, write);
    const std::uint32_t first = offset[lane] >> w.race.shift,
                        last = (offset[lane] + op->size - 1) >> w.race.shift;
    for (std::uint32_t cell = first; cell <= last; ++cell)
      access.at(block.writers[cell], block.readers[cell]);
    if ((op->flags & kCopying) != 0)
      block.copies.push_back(
          {w.index * kLanes + lane, block.copy_groups[w.index * kLanes + lane], first, last});
    if (tells) block.orders.release(w, lane, meeting_place(op, w, offset[lane]), releases);
    if (!access.conflicts() || (write && access.with_plain_write() &&
                                stores_the_same(op, w, lane, offset, w.shared + offset[lane])))
      continue;
    report(op, w,
           {.kind = FaultKind::race,
            .lane = lane,
            .address = place,
            .size = op->size,
            .write = write,
            .about = access.about()});
  }
  return true;
}

void note_global(const Op* op, Warp& w, const std::uint64_t* address, bool write) {
  RunCore& run = *w.block->run;
  update_time(*w.block);
  const unsigned shift = run.global_shift;
  if (w.block->time >= kMaxTime || op->size >> shift == 0) return;
  w.block->time_used = true;
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    GlobalAccess access(op, w, lane, write);
    for (std::uint32_t at = 0; at < op->size; at += 1u << shift)
      if (Arena::RaceCell* const cell = run.arena->race_cell(address[lane] + at, shift))
        access.at(*cell);
    const bool harmless = write && access.with_plain_write() &&
                          stores_the_same(op, w, lane, address, run.arena->host(address[lane]));
    if (!access.conflicts() || harmless) continue;
    report(op, w,
           {.kind = FaultKind::race,
            .lane = lane,
            .address = address[lane],
            .size = op->size,
            .write = write,
            .about = access.about(run)});
  }
}

// What the block did before the time is known to who reads there from now on.
void publish(std::atomic<std::uint32_t>& known, std::uint32_t time) {
  if (time > known.load(std::memory_order_relaxed)) known.store(time, std::memory_order_release);
}

void note_order(const Op* op, Warp& w, const std::uint64_t* address, bool write) {
  if (w.check_global && w.mask != 0) {
    Block& block = *w.block;
    const bool releases = (op->flags & kRelease) != 0;
    if (write) {
      publish(block.run->published[block.linear], releases ? end_time(block) : block.fence_time);
      // What was read has come before a barrier opens: nobody's write can change it any more.
      publish(block.run->reads_published[block.linear], block.barrier_time);
    }
    if (!write || (op->flags & kUpdate) != 0) w.block->has_acquired = true;
  }
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    Orders& orders = w.block->orders;
    if (!write || (op->flags & kUpdate) != 0) orders.acquire(w, lane, address[lane]);
    if (write) orders.release(w, lane, address[lane], (op->flags & kRelease) != 0);
  }
}

void note_unwritten(const Op* op, Warp& w, unsigned lane, std::uint32_t offset) {
  std::uint8_t* const valid = w.shared_valid + offset;
  if (std::find(valid, valid + op->size, 0) == valid + op->size) return;
  std::memset(valid, 1, op->size);  // said once
  report(op, w,
         {.kind = FaultKind::uninitialised,
          .lane = lane,
          .address = kSharedWindow + offset,
          .size = op->size,
          .about = "nobody of the block wrote these bytes of shared memory"});
}
void note_unwritten(const Op* op, Warp& w, const std::uint32_t* offset) {
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    note_unwritten(op, w, lane, offset[lane]);
  }
}

void begin_shadows(Block& block, std::uint32_t shared_bytes, std::uint32_t shift) {
  const std::size_t cells = (shared_bytes >> shift) + 1;
  for (const Block::Copy& copy : block.copies)  // that nobody waited for
    std::fill(block.writers.begin() + copy.first, block.writers.begin() + copy.last + 1, 0);
  block.copies.clear();
  block.time = 1;
  block.barrier_time = block.fence_time = 0;
  block.time_used = block.has_acquired = false;
  block.copy_groups.assign(block.run->threads, 0);
  block.writers.resize(std::max(cells, block.writers.size()));
  block.readers.resize(block.writers.size());
  if (++block.epoch <= 0xffff'0000u) return;
  std::ranges::fill(block.writers, 0);
  std::ranges::fill(block.readers, 0);
  block.epoch = 1;
}

namespace control {

const Op* fence(const Op* op, Warp& w) {
  if (!w.check_races) return op + 1;
  w.block->orders.fence(w);
  w.block->fence_time = end_time(*w.block);
  return op + 1;
}

const Op* copies(const Op* op, Warp& w) {
  if (!w.check_races) return op + 1;
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    std::uint32_t& groups = w.block->copy_groups[w.index * kLanes + lane];
    if (op->imm == kCommitCopies)
      ++groups;
    else
      land(w, lane, [&](const Block::Copy& copy) {
        return op->imm == kAllCopies || copy.group + op->imm < groups;
      });
  }
  return op + 1;
}

}  // namespace control
}  // namespace partita::ptx
