// Calls of functions, of what the system defines (vprintf, __assertfail, malloc, free, launches),
// clocks and traps.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "ptx/control.h"
#include "ptx/device_print.h"
#include "ptx/exec.h"

namespace partita::ptx::control {
namespace {

std::byte* local_byte(Warp& w, unsigned lane, std::uint64_t at) {
  return w.local + (at >> 2) * 128 + lane * 4 + (at & 3);
}
std::byte* byte_of(Warp& w, const Place& place, unsigned lane, std::uint32_t i) {
  if (place.is_register) return w.registers + place.offset + lane * place.bytes + i;
  return local_byte(w, lane, place.offset + i);
}

void copy(Warp& w, const Place& to, const Place& from) {
  const std::uint32_t bytes = std::min(to.bytes, from.bytes);
  const bool words = bytes % 4 == 0 && to.offset % 4 == 0 && from.offset % 4 == 0;
  for (std::uint32_t i = 0; i < bytes; i += words ? 4 : 1)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((w.mask >> lane & 1) != 0)
        std::memcpy(byte_of(w, to, lane, i), byte_of(w, from, lane, i), words ? 4 : 1);
}

// Values on their way between activations of one function, whose places are the same.
class Staged {
 public:
  Staged(Warp& w, const std::vector<Place>& from) {
    for (const Place& place : from)
      for (std::uint32_t i = 0; i < place.bytes; ++i)
        for (unsigned lane = 0; lane < kLanes; ++lane)
          bytes_.push_back(*byte_of(w, place, lane, i));
  }
  void put(Warp& w, const Place& to, std::uint32_t bytes_there) {
    for (std::uint32_t i = 0; i < bytes_there; ++i, next_ += kLanes)
      for (unsigned lane = 0; i < to.bytes && lane < kLanes; ++lane)
        if ((w.mask >> lane & 1) != 0) *byte_of(w, to, lane, i) = bytes_[next_ + lane];
  }

 private:
  std::vector<std::byte> bytes_ = {};
  std::size_t next_ = 0;
};

// What a call of a recursive function keeps lies on the thread's stack, below the variables.
void move_kept(Warp& w, const Callee& callee, const std::uint64_t* stack, bool restore) {
  std::uint32_t at = 0;
  for (const Place& place : callee.kept) {
    const bool words = place.bytes % 4 == 0 && place.offset % 4 == 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t bit = 1u << lane;
      if ((w.mask & bit) == 0) continue;
      if (place.bytes == 0) {
        std::uint32_t& mask = mask_register(w, place.offset);
        std::byte& there = *local_byte(w, lane, stack[lane] + at);
        if (restore)
          mask = there != std::byte{0} ? mask | bit : mask & ~bit;
        else
          there = std::byte{(mask & bit) != 0};
        continue;
      }
      for (std::uint32_t i = 0; i < place.bytes; i += words ? 4 : 1) {
        std::byte* const here = byte_of(w, place, lane, i);
        std::byte* const there = local_byte(w, lane, stack[lane] + at + i);
        std::memcpy(restore ? here : there, restore ? there : here, words ? 4 : 1);
      }
    }
    at += (std::max(place.bytes, 1u) + 3) / 4 * 4;
  }
}

// Another activation of a recursive function begins; false where the stack is full.
bool enter(const Op* op, Warp& w, const Callee& callee) {
  std::uint64_t* top = lane_registers<std::uint64_t>(w, w.block->run->program->stack_slot);
  std::uint64_t* frame = lane_registers<std::uint64_t>(w, callee.frame_slot);
  const std::uint32_t bytes = callee.kept_bytes + callee.frame_bytes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0 || top[lane] + bytes <= w.local_bytes) continue;
    report(op, w,
           {.kind = FaultKind::illegal,
            .lane = lane,
            .about = fmt::format("calls nest too deep: a thread's stack has {} bytes",
                                 w.local_bytes - w.block->run->program->stack_begin)});
    return false;
  }
  move_kept(w, callee, top, false);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    frame[lane] = top[lane] + callee.kept_bytes;
    top[lane] += bytes;
  }
  return true;
}

void leave(Warp& w, const Callee& callee) {
  std::uint64_t* top = lane_registers<std::uint64_t>(w, w.block->run->program->stack_slot);
  const std::uint64_t* frame = lane_registers<std::uint64_t>(w, callee.frame_slot);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) top[lane] = frame[lane] - callee.kept_bytes;
  move_kept(w, callee, top, true);
}

// From one list of places to another, around the begin or the end of an activation.
bool pass(const Op* op, Warp& w, const Callee& callee, const std::vector<Place>& to,
          const std::vector<Place>& from, bool begins) {
  const std::vector<Place> passed(
      from.begin(), from.begin() + static_cast<std::ptrdiff_t>(std::min(to.size(), from.size())));
  if (!callee.is_recursive) {
    for (std::size_t i = 0; i < passed.size(); ++i) copy(w, to[i], passed[i]);
    return true;
  }
  Staged values(w, passed);
  if (begins && !enter(op, w, callee)) return false;
  if (!begins) leave(w, callee);
  for (std::size_t i = 0; i < passed.size(); ++i) values.put(w, to[i], passed[i].bytes);
  return true;
}

std::uint64_t argument(Warp& w, const CallSite& site, std::size_t i, unsigned lane) {
  std::uint64_t value = 0;
  const Place& place = site.arguments[i];
  for (std::uint32_t n = 0; n < std::min(place.bytes, 8u); ++n)
    reinterpret_cast<std::byte*>(&value)[n] = *byte_of(w, place, lane, n);
  return value;
}
void give_result(Warp& w, const CallSite& site, unsigned lane, std::uint64_t value) {
  if (site.results.empty()) return;
  const Place& place = site.results[0];
  for (std::uint32_t n = 0; n < std::min(place.bytes, 8u); ++n)
    *byte_of(w, place, lane, n) = reinterpret_cast<std::byte*>(&value)[n];
}

// The lanes of one block print in order, and a line is not torn by another block.
bool print(const Op* op, Warp& w, const CallSite& site, unsigned lane) {
  const std::string format = read_text(op, w, lane, argument(w, site, 0, lane));
  std::uint64_t at = argument(w, site, 1, lane);
  const auto bytes = [&](std::span<std::byte> to) {
    at = (at + to.size() - 1) / to.size() * to.size();
    const bool got = read_generic(op, w, lane, at, to);
    at += to.size();
    return got;
  };
  const auto text = [&](std::uint64_t address) { return read_text(op, w, lane, address); };
  const DevicePrint line = print_like_device(format, bytes, text);
  if (line.failed) return false;
  RunCore& run = *w.block->run;
  const std::scoped_lock lock(run.mutex);
  if (run.printed.size() + line.text.size() <= kMaxPrinted) run.printed += line.text;
  give_result(w, site, lane, static_cast<std::uint64_t>(line.arguments));
  return !w.block->failed;
}

bool illegal(const Op* op, Warp& w, unsigned lane, std::uint64_t address, std::string about) {
  return report(
      op, w,
      {.kind = FaultKind::illegal, .lane = lane, .address = address, .about = std::move(about)});
}

Extent extent(Warp& w, const CallSite& site, std::size_t i, unsigned lane) {
  std::uint32_t sides[3] = {};
  const Place& place = site.arguments[i];
  for (std::uint32_t n = 0; n < std::min<std::uint32_t>(place.bytes, sizeof sides); ++n)
    reinterpret_cast<std::byte*>(sides)[n] = *byte_of(w, place, lane, n);
  return {sides[0], sides[1], sides[2]};
}

// Memory for the parameters of a launch that the lane is about to make.
bool begin_launch(const Op* op, Warp& w, const CallSite& site, unsigned lane) {
  RunCore& run = *w.block->run;
  const Loaded& loaded = *run.loaded;
  const std::uint64_t address = argument(w, site, 0, lane);
  const std::uint64_t function = (address - kFunctionWindow) / kFunctionStride - 1;
  std::uint32_t index = 0;
  if (function < loaded.module.functions.size())
    while (index < loaded.infos.size() &&
           loaded.infos[index].name != loaded.module.functions[function].name)
      ++index;
  if (function >= loaded.module.functions.size() || index == loaded.infos.size())
    return illegal(op, w, lane, address, "the launch is of what is no kernel");
  constexpr std::uint32_t kLeast = 16;
  const auto made = run.arena->allocate(std::max(loaded.infos[index].parameter_bytes, kLeast));
  give_result(w, site, lane, made ? *made : 0);
  if (!made) return true;
  const std::scoped_lock lock(run.mutex);
  run.begun[*made] = {.kernel = {run.launch.kernel.module, index},
                      .grid = extent(w, site, 1, lane),
                      .block = extent(w, site, 2, lane),
                      .dynamic_shared = static_cast<std::uint32_t>(argument(w, site, 3, lane)),
                      .units = run.launch.units,
                      .checks = run.launch.checks,
                      .max_faults = run.launch.max_faults};
  return true;
}

// It runs once the launch of which the lane is one has ended: nothing may wait for it before.
bool launch(const Op* op, Warp& w, const CallSite& site, unsigned lane) {
  constexpr std::uint64_t kTailLaunch = 3;  // cudaStreamTailLaunch
  RunCore& run = *w.block->run;
  const std::uint64_t address = argument(w, site, 0, lane);
  std::unique_lock lock(run.mutex);
  auto begun = run.begun.extract(address);
  if (begun.empty()) {
    lock.unlock();
    return illegal(op, w, lane, address, "the launch has parameters that nobody made room for");
  }
  const std::byte* const bytes = run.arena->host(address);
  const std::uint32_t index = begun.mapped().kernel.index;
  begun.mapped().parameters.assign(bytes, bytes + run.loaded->infos[index].parameter_bytes);
  static_cast<void>(run.arena->release(address));
  auto& into = argument(w, site, 1, lane) == kTailLaunch ? run.launched_last : run.launched;
  into.push_back(std::move(begun.mapped()));
  give_result(w, site, lane, 0);
  return true;
}

// The handle of a condition is the address of its word.
bool set_conditional(const Op* op, Warp& w, const CallSite& site, unsigned lane) {
  const std::uint64_t address = argument(w, site, 0, lane);
  const std::uint32_t value = static_cast<std::uint32_t>(argument(w, site, 1, lane));
  Arena& arena = *w.block->run->arena;
  if (address % sizeof(value) != 0 || !arena.bytes_at(address, sizeof(value), true))
    return illegal(op, w, lane, address, "no condition of a graph has this handle");
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(arena.host(address)))
      .store(value, std::memory_order_relaxed);
  return true;
}

const Op* call_builtin(const Op* op, Warp& w, const CallSite& site) {
  RunCore& run = *w.block->run;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((w.mask >> lane & 1) == 0) continue;
    switch (site.builtin) {
      case Builtin::vprintf:
        if (!print(op, w, site, lane)) return nullptr;
        break;
      case Builtin::assert_fail:
        report(op, w,
               {.kind = FaultKind::assertion,
                .lane = lane,
                .about = fmt::format("{}:{}: {}: assertion `{}' failed",
                                     read_text(op, w, lane, argument(w, site, 1, lane)),
                                     argument(w, site, 2, lane),
                                     read_text(op, w, lane, argument(w, site, 3, lane)),
                                     read_text(op, w, lane, argument(w, site, 0, lane)))});
        return nullptr;
      case Builtin::set_conditional:
        if (!set_conditional(op, w, site, lane)) return nullptr;
        break;
      case Builtin::malloc: {
        const std::uint64_t bytes = argument(w, site, 0, lane);
        const auto made =
            bytes == 0 ? Result<std::uint64_t>(0) : run.arena->allocate_in_heap(bytes);
        give_result(w, site, lane, made ? *made : 0);
        break;
      }
      case Builtin::free: {
        const std::uint64_t address = argument(w, site, 0, lane);
        if (address == 0 || run.arena->release_in_heap(address)) break;
        illegal(op, w, lane, address, "free of what malloc did not give");
        return nullptr;
      }
      case Builtin::begin_launch:
        if (!begin_launch(op, w, site, lane)) return nullptr;
        break;
      case Builtin::launch:
        if (!launch(op, w, site, lane)) return nullptr;
        break;
      case Builtin::none:
        break;
    }
  }
  if (site.builtin >= Builtin::malloc) {  // memory came or went
    Worker& worker = *w.block->worker;
    worker.table_version = run.arena->version();
    worker.table = run.arena->table();
    std::fill(worker.spans.begin(), worker.spans.end(), Span{});
  }
  return op + 1;
}

}  // namespace

const Op* call(const Op* op, Warp& w) {
  const Program& program = *w.block->run->program;
  const CallSite& site = program.calls[static_cast<std::size_t>(op->imm)];
  if (site.builtin != Builtin::none) return call_builtin(op, w, site);
  std::int32_t callee = site.callee;
  if (callee < 0) {
    const std::uint64_t* target = lane_registers<std::uint64_t>(w, site.target);
    const auto first = static_cast<unsigned>(__builtin_ctz(w.mask));
    std::uint32_t same = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((w.mask >> lane & 1) != 0 && target[lane] == target[first]) same |= 1u << lane;
    const auto found = program.by_address.find(target[first]);
    const bool fits = found != program.by_address.end() &&
                      program.callees[found->second].parameters.size() == site.arguments.size() &&
                      program.callees[found->second].results.size() >= site.results.size();
    if (!fits) {
      report(op, w,
             {.kind = FaultKind::illegal,
              .lane = first,
              .address = target[first],
              .about = "the call goes to what is no function, or one with other parameters"});
      return nullptr;
    }
    if (same != w.mask) {  // the others have their turn later
      count(w, op, 0);
      wait_at(w, static_cast<std::uint32_t>(op - w.code), w.mask & ~same);
      w.mask = same;
      w.segment = op;
    }
    callee = static_cast<std::int32_t>(found->second);
  }
  const Callee& to = program.callees[static_cast<std::size_t>(callee)];
  std::uint32_t& active = mask_register(w, to.active_slot);
  if (!to.is_recursive && (active & w.mask) != 0) {
    report(op, w,
           {.kind = FaultKind::illegal,
            .lane = static_cast<unsigned>(__builtin_ctz(active & w.mask)),
            .about = "a function calls itself through a pointer, which is not supported"});
    return nullptr;
  }
  active |= w.mask;
  if (!pass(op, w, to, to.parameters, site.arguments, true)) return nullptr;
  std::uint32_t* back = lane_registers<std::uint32_t>(w, to.return_slot);
  const auto next = static_cast<std::uint32_t>(op + 1 - w.code);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) back[lane] = next;
  count(w, op, 1);
  if (--w.budget < 0) return slice_end(w, to.entry);
  if (w.waiting_count != 0) return settle(w, to.entry);
  return w.segment = w.code + to.entry;
}

const Op* after_call(const Op* op, Warp& w) {
  const Program& program = *w.block->run->program;
  const CallSite& site = program.calls[static_cast<std::size_t>(op->imm)];
  if (site.callee >= 0) {
    const Callee& from = program.callees[static_cast<std::size_t>(site.callee)];
    pass(op, w, from, site.results, from.results, false);
    return op + 1;
  }
  const std::uint64_t* target = lane_registers<std::uint64_t>(w, site.target);
  const std::uint32_t all = w.mask;
  for (std::uint32_t left = all; left != 0;) {
    const auto first = static_cast<unsigned>(__builtin_ctz(left));
    w.mask = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((left >> lane & 1) != 0 && target[lane] == target[first]) w.mask |= 1u << lane;
    const Callee& from = program.callees[program.by_address.at(target[first])];
    pass(op, w, from, site.results, from.results, false);
    left &= ~w.mask;
  }
  w.mask = all;
  return op + 1;
}

const Op* ret(const Op* op, Warp& w) {
  if (op->imm < 0) return exit_lanes(op, w);
  count(w, op, 1);
  const Callee& callee = w.block->run->program->callees[static_cast<std::size_t>(op->imm)];
  mask_register(w, callee.active_slot) &= ~w.mask;
  const std::uint32_t* back = lane_registers<std::uint32_t>(w, callee.return_slot);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) wait_at(w, back[lane], 1u << lane);
  return next_group(w);
}

const Op* trap(const Op* op, Warp& w) {
  report(op, w,
         {.kind = FaultKind::trap,
          .lane = static_cast<unsigned>(__builtin_ctz(w.mask)),
          .about = "the kernel executed trap"});
  return nullptr;
}

const Op* clock64(const Op* op, Warp& w) {  // a GHz of what the host's clock says
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                              std::chrono::nanoseconds(1));
  std::uint64_t* d = lane_registers<std::uint64_t>(w, op->d);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if ((w.mask >> lane & 1) != 0) d[lane] = now;
  return op + 1;
}
const Op* global_timer(const Op* op, Warp& w) { return clock64(op, w); }

}  // namespace partita::ptx::control
