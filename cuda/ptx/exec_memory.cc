// Memory that the fast paths of the ops do not reach: other windows, several allocations, checks.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ptx/exec.h"
#include "ptx/memory_ops.h"

namespace partita::ptx {
namespace {

constexpr std::uint32_t kWide = 4;  // ops_memory.h: the address register has 64 bits

std::byte* local_word(Warp& w, unsigned lane, std::uint64_t offset) {
  return w.local + (offset >> 2) * 128 + lane * 4 + (offset & 3);
}
void copy_from_local(Warp& w, unsigned lane, std::uint64_t offset, std::span<std::byte> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = *local_word(w, lane, offset + i);
}
bool in_window(std::uint64_t address, std::uint64_t window) {
  return address - window < kWindowBytes;
}

Report missing(Warp& w, unsigned lane, std::uint64_t address, std::uint32_t size, bool write) {
  const Arena::Near near = w.block->run->arena->describe(address, size);
  return {.kind = near.freed ? FaultKind::use_after_free : FaultKind::out_of_bounds,
          .lane = lane,
          .address = address,
          .size = size,
          .write = write,
          .about = near.text};
}
std::string beyond(std::uint64_t offset, std::uint64_t bytes, const char* what) {
  return fmt::format("offset {} is beyond the {} bytes of {} memory", offset, bytes, what);
}

// Resolves one access after the other.
class Resolver {
 public:
  Resolver(const Op* op, Warp& w, bool write)
      : op_(op), w_(w), run_(*w.block->run), size_(op->size), write_(write) {}

  LanePointers all(const std::uint64_t* address) {
    LanePointers found;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((w_.mask >> lane & 1) != 0 && !one(lane, address[lane], found)) {
        found.failed = true;
        return found;
      }
    if (w_.check_races) found.failed = !note(address);
    if (cached_.bytes != 0) w_.spans[op_->span] = cached_;
    return found;
  }

 private:
  bool note(const std::uint64_t* address) {
    const std::uint32_t all = w_.mask;
    w_.mask = shared_;
    const bool fine = note_shared(op_, w_, shared_offsets_, write_);
    w_.mask = all & ~(shared_ | found_elsewhere_);
    if (w_.check_global) note_global(op_, w_, address, write_);
    if ((op_->flags & kStrong) != 0) note_order(op_, w_, address, write_);
    w_.mask = all;
    return fine;
  }

  bool fail(Report what) {
    what.size = size_;
    what.write = write_;
    return report(op_, w_, std::move(what));
  }

  bool one(unsigned lane, std::uint64_t address, LanePointers& found) {
    if (address % size_ != 0)
      return fail({.kind = FaultKind::misaligned,
                   .lane = lane,
                   .address = address,
                   .about = fmt::format("the address is no multiple of {}", size_)});
    if (cached_.bytes != 0 && address - cached_.begin < cached_.bytes &&
        size_ <= cached_.bytes - (address - cached_.begin))
      return in_span(lane, address, found);
    if ((op_->flags & kGeneric) != 0 && address < kGlobalBase)
      return in_other_window(lane, address, found);
    const Allocation* allocation = find(address);
    if (allocation == nullptr || allocation->bytes - (address - allocation->begin) < size_)
      return report(op_, w_, missing(w_, lane, address, size_, write_));
    cached_ = run_.arena->span_of(*allocation, run_.launch.checks.uninitialised);
    return in_span(lane, address, found);
  }

  // An allocation that another block made meanwhile (malloc in a kernel) is looked for once more.
  const Allocation* find(std::uint64_t address) {
    Worker& worker = *w_.block->worker;
    const Allocation* found = worker.table->find(address);
    if (found != nullptr || worker.table_version == run_.arena->version()) return found;
    worker.table_version = run_.arena->version();
    worker.table = run_.arena->table();
    return worker.table->find(address);
  }

  bool in_span(unsigned lane, std::uint64_t address, LanePointers& found) {
    const std::uint64_t offset = address - cached_.begin;
    if (write_ && cached_.read_only)
      return fail({.kind = FaultKind::read_only,
                   .lane = lane,
                   .address = address,
                   .about = "the memory is constant"});
    found.at[lane] = cached_.host + offset;
    if (cached_.valid == nullptr) return true;
    std::uint8_t* valid = cached_.valid + offset;
    if (write_) {
      std::memset(valid, 1, size_);
    } else if (std::find(valid, valid + size_, 0) != valid + size_) {
      std::memset(valid, 1, size_);  // said once
      return fail({.kind = FaultKind::uninitialised,
                   .lane = lane,
                   .address = address,
                   .about = fmt::format("nobody wrote these bytes of a {}-byte allocation at {:#x}",
                                        cached_.bytes, cached_.begin)});
    }
    return true;
  }

  bool in_other_window(unsigned lane, std::uint64_t address, LanePointers& found) {
    if (in_window(address, kSharedWindow)) {
      const std::uint64_t offset = address - kSharedWindow;
      if (offset >= w_.shared_bytes || w_.shared_bytes - offset < size_)
        return fail({.kind = FaultKind::out_of_bounds,
                     .lane = lane,
                     .address = address,
                     .about = beyond(offset, w_.shared_bytes, "shared")});
      found.at[lane] = w_.shared + offset;
      shared_ |= 1u << lane;
      shared_offsets_[lane] = static_cast<std::uint32_t>(offset);
      if (!w_.check_races && !run_.launch.cooperative)
        cached_ = {kSharedWindow, w_.shared_bytes, w_.shared, w_.shared_valid, false};
      if (w_.shared_valid == nullptr) return true;
      if (write_)
        std::memset(w_.shared_valid + offset, 1, size_);
      else
        note_unwritten(op_, w_, lane, static_cast<std::uint32_t>(offset));
      return true;
    }
    if (in_window(address, kLocalWindow)) {
      const std::uint64_t offset = address - kLocalWindow;
      if (offset >= w_.local_bytes || w_.local_bytes - offset < size_)
        return fail({.kind = FaultKind::out_of_bounds,
                     .lane = lane,
                     .address = address,
                     .about = beyond(offset, w_.local_bytes, "local")});
      found.at[lane] = w_.block->worker->bounce[lane];
      found.local |= 1u << lane;
      found_elsewhere_ |= 1u << lane;
      copy_from_local(w_, lane, offset, {found.at[lane], size_});
      return true;
    }
    const std::uint64_t offset = address - kParameterWindow;
    const std::vector<std::byte>& parameters = run_.launch.parameters;
    if (in_window(address, kParameterWindow) && offset < parameters.size() &&
        parameters.size() - offset >= size_) {
      if (write_)
        return fail({.kind = FaultKind::read_only,
                     .lane = lane,
                     .address = address,
                     .about = "parameters of a kernel are constant"});
      found.at[lane] = w_.block->worker->bounce[lane];
      found_elsewhere_ |= 1u << lane;
      std::memcpy(found.at[lane], parameters.data() + offset, size_);
      return true;
    }
    return report(op_, w_, missing(w_, lane, address, size_, write_));
  }

  const Op* op_;
  Warp& w_;
  RunCore& run_;
  std::uint32_t size_;
  bool write_;
  Span cached_ = {};
  std::uint32_t shared_ = 0, found_elsewhere_ = 0;  // local, parameters
  std::uint32_t shared_offsets_[kLanes] = {};
};

}  // namespace

LanePointers resolve(const Op* op, Warp& w, const std::uint64_t* address, bool write) {
  return Resolver(op, w, write).all(address);
}

void write_back(const Op* op, Warp& w, const std::uint64_t* address, const LanePointers& found) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((found.local >> lane & 1) != 0)
      for (std::uint32_t i = 0; i < op->size; ++i)
        *local_word(w, lane, address[lane] - kLocalWindow + i) = found.at[lane][i];
}

namespace {

// Reports the first lane whose access is outside of `bytes` of its space, or misaligned.
void fault_in(const Op* op, Warp& w, const char* space, std::uint64_t bytes, bool write,
              const auto& offset_of) {
  const std::uint32_t size = op->size;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    const std::uint64_t at = offset_of(lane);
    const bool outside = at >= bytes || bytes - at < size;
    if (!outside && at % size == 0) continue;
    report(op, w,
           {.kind = outside ? FaultKind::out_of_bounds : FaultKind::misaligned,
            .lane = lane,
            .address = at,
            .size = size,
            .write = write,
            .about = outside ? beyond(at, bytes, space)
                             : fmt::format("the offset in {} memory is no multiple of {}", space,
                                           size)});
    return;
  }
}

}  // namespace

void shared_fault(const Op* op, Warp& w, const std::uint64_t* offset, bool write) {
  fault_in(op, w, "shared", w.shared_bytes, write, [&](unsigned lane) {
    return (op->flags & kWide) != 0 ? offset[lane] : static_cast<std::uint32_t>(offset[lane]);
  });
}

void local_fault(const Op* op, Warp& w, const std::uint64_t* offset, bool write) {
  fault_in(op, w, "local", w.local_bytes, write, [&](unsigned lane) { return offset[lane]; });
}

bool peek_generic(Warp& w, unsigned lane, std::uint64_t address, std::span<std::byte> to) {
  const auto size = static_cast<std::uint32_t>(to.size());
  if (in_window(address, kLocalWindow)) {
    const std::uint64_t offset = address - kLocalWindow;
    if (offset < w.local_bytes && w.local_bytes - offset >= size) {
      copy_from_local(w, lane, offset, to);
      return true;
    }
  }
  if (in_window(address, kSharedWindow)) {
    const std::uint64_t offset = address - kSharedWindow;
    if (offset < w.shared_bytes && w.shared_bytes - offset >= size) {
      std::memcpy(to.data(), w.shared + offset, size);
      return true;
    }
  }
  const Allocation* allocation = w.block->worker->table->find(address);
  if (allocation == nullptr || allocation->bytes - (address - allocation->begin) < size)
    return false;
  std::memcpy(to.data(), w.block->run->arena->host(address), size);
  return true;
}

bool read_generic(const Op* op, Warp& w, unsigned lane, std::uint64_t address,
                  std::span<std::byte> to) {
  if (peek_generic(w, lane, address, to)) return true;
  const auto size = static_cast<std::uint32_t>(to.size());
  return report(op, w, missing(w, lane, address, size, false));
}

std::string read_text(const Op* op, Warp& w, unsigned lane, std::uint64_t address) {
  constexpr std::size_t kMaxText = 4096;
  std::string text;
  std::byte one{};
  while (text.size() < kMaxText && read_generic(op, w, lane, address + text.size(), {&one, 1}) &&
         one != std::byte{0})
    text += static_cast<char>(one);
  return text;
}

}  // namespace partita::ptx
