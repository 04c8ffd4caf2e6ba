#include "ptx/exec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ptx/control.h"

namespace partita::ptx {

AlignedBytes::~AlignedBytes() { std::free(data); }
AlignedBytes::AlignedBytes(AlignedBytes&& other) noexcept
    : data(std::exchange(other.data, nullptr)), size(std::exchange(other.size, 0)) {}
AlignedBytes& AlignedBytes::operator=(AlignedBytes&& other) noexcept {
  std::swap(data, other.data);
  std::swap(size, other.size);
  return *this;
}
bool AlignedBytes::reserve(std::size_t bytes) {
  if (bytes <= size) return true;
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  void* made = std::aligned_alloc(64, rounded);
  if (made == nullptr) return false;
  std::memset(made, 0, rounded);
  std::free(data);
  data = static_cast<std::byte*>(made);
  size = rounded;
  return true;
}

namespace {

// The next blocks of the launch that nobody has begun; none where there are no more.
BlockRange take_blocks(RunCore& run) {
  const std::uint64_t all = run.launch.grid.volume();
  const std::uint64_t first =
      std::min(run.next_block.fetch_add(run.per_group, std::memory_order_relaxed), all);
  return {first, std::min(first + run.per_group, all)};
}

void know_memory(Arena& arena, Worker& worker) {
  worker.table_version = arena.version();
  worker.table = arena.table();
}

template <class T>
void spread(std::byte* registers, std::uint32_t slot, T value) {
  T* const lanes = reinterpret_cast<T*>(registers + slot);
  std::fill(lanes, lanes + kLanes, value);
}

void fill_block(const RunCore& run, Frame& frame, const Block& block) {
  for (const FillSlot& fill : run.block_fills)
    spread(frame.registers.data, fill.slot,
           fill.fill == Fill::ctaid_x   ? block.index.x
           : fill.fill == Fill::ctaid_y ? block.index.y
                                        : block.index.z);
  frame.block = block.linear;
}

void fill_warp(const RunCore& run, Frame& frame, std::uint32_t warp) {
  const Extent& size = run.launch.block;
  if (run.warp_fills.empty()) return;
  alignas(64) std::uint32_t x[kLanes], y[kLanes], z[kLanes];
  const std::uint32_t first = warp * kLanes;
  if (size.y == 1 && size.z == 1 && run.warp_fills.size() == 1 &&
      run.warp_fills[0].fill == Fill::tid_x) {
    auto* to = reinterpret_cast<std::uint32_t*>(frame.registers.data + run.warp_fills[0].slot);
    for (std::uint32_t i = 0; i < kLanes; ++i) to[i] = first + i;
    frame.warp = warp;
    return;
  }
  std::uint32_t at_x = first % size.x, rest = first / size.x;
  std::uint32_t at_y = rest % size.y, at_z = rest / size.y;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    x[i] = at_x;
    y[i] = at_y;
    z[i] = at_z;
    if (++at_x < size.x) continue;
    at_x = 0;
    if (++at_y < size.y) continue;
    at_y = 0;
    ++at_z;
  }
  for (const FillSlot& fill : run.warp_fills) {
    std::byte* const to = frame.registers.data + fill.slot;
    if (fill.fill == Fill::tid_x) std::memcpy(to, x, sizeof(x));
    if (fill.fill == Fill::tid_y) std::memcpy(to, y, sizeof(y));
    if (fill.fill == Fill::tid_z) std::memcpy(to, z, sizeof(z));
    if (fill.fill == Fill::warp_id) spread(frame.registers.data, fill.slot, warp);
  }
  frame.warp = warp;
}

bool start_warp(RunCore& run, Block& block, std::uint32_t warp) {
  Worker& worker = *block.worker;
  std::unique_ptr<Frame> frame;
  if (worker.spare.empty()) {
    frame = std::make_unique<Frame>();
  } else {
    frame = std::move(worker.spare.back());
    worker.spare.pop_back();
  }
  const Program& program = *run.program;
  if (frame->serial != run.serial) {
    if (!frame->registers.reserve(program.register_bytes) ||
        !frame->local.reserve(std::size_t{program.local_bytes} * kLanes))
      return false;
    if (!run.image.empty())
      std::memcpy(frame->registers.data + program.constant_begin, run.image.data(),
                  run.image.size());
    frame->serial = run.serial;
    frame->block = ~std::uint64_t{0};
    frame->warp = ~std::uint32_t{0};
  }
  if (frame->block != block.linear) fill_block(run, *frame, block);
  if (frame->warp != warp) fill_warp(run, *frame, warp);
  Warp& w = block.warps[warp];
  w.registers = frame->registers.data;
  w.local = frame->local.data;
  for (const Callee& callee : program.callees) mask_register(w, callee.active_slot) = 0;
  if (program.stack_slot != 0)
    spread(w.registers, program.stack_slot, std::uint64_t{program.stack_begin});
  block.frames[warp] = std::move(frame);
  block.started[warp] = 1;
  return true;
}

// Others may begin the blocks that this worker ends: it keeps no more frames than it can use.
void end_warp(Block& block, std::uint32_t warp) {
  Worker& worker = *block.worker;
  std::unique_ptr<Frame> frame = std::move(block.frames[warp]);
  if (frame != nullptr && worker.spare.size() < (worker.blocks.size() + 1) * block.warps.size())
    worker.spare.push_back(std::move(frame));
}

bool run_warp(RunCore& run, Block& block, std::uint32_t warp) {
  Warp& w = block.warps[warp];
  if (block.started[warp] == 0 && !start_warp(run, block, warp)) {
    report(w.segment, w, {.kind = FaultKind::illegal, .about = "there is no memory for the warp"});
    return false;
  }
  w.budget = kSliceBranches;
  const Op* op = resume_group(w);
  const bool follows = w.undefined != nullptr && !w.undefined->lanes.empty();
  if (run.launch.watcher != nullptr || follows) [[unlikely]]
    run_watched(op, w);
  else
    while (op != nullptr) op = op->fn(op, w);
  if (w.live == 0) end_warp(block, warp);
  return true;
}

// One turn for each warp that can go on; false where none could.
bool turn(RunCore& run, Block& block) {
  bool progress = false;
  for (std::uint32_t warp = 0; warp < run.warps; ++warp) {
    if (block.warps[warp].waiting_count == 0) continue;
    progress = true;
    run_warp(run, block, warp);
    if (block.failed) return true;
  }
  return progress;
}

void report_deadlock(Block& block) {
  for (Warp& w : block.warps) {
    if (w.parked_count == 0) continue;
    const Parked& parked = w.parked[0];
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(parked.mask));
    static constexpr const char* kWhy[] = {
        "threads wait at this barrier for others that never come",
        "lanes wait at this exchange for others of the warp that never come",
        "lanes wait at this barrier of the warp for others that never come"};
    report(w.code + parked.pc, w,
           {.kind = FaultKind::deadlock,
            .lane = lane,
            .about = kWhy[static_cast<std::size_t>(parked.why)]});
    return;
  }
}

void end_block(RunCore& run, Block& block) {
  std::uint64_t threads = 0, warps = 0;
  for (std::uint32_t warp = 0; warp < run.warps; ++warp) {
    threads += block.warps[warp].thread_instructions;
    warps += block.warps[warp].warp_instructions;
    end_warp(block, warp);
  }
  run.thread_instructions.fetch_add(threads, std::memory_order_relaxed);
  run.warp_instructions.fetch_add(warps, std::memory_order_relaxed);
}

// The worker goes on with a block that it did not begin, or with another one than it had.
void turn_to(const RunCore& run, Worker& worker, std::unique_ptr<Block> block) {
  Block& now = *(worker.blocks.front() = std::move(block));
  now.worker = &worker;
  for (Warp& w : now.warps) w.spans = worker.spans.data();
  if (worker.table_version != run.arena->version()) know_memory(*run.arena, worker);
  std::ranges::fill(worker.spans, Span{});  // of shared memory, too
}

// Of a launch of which no more blocks may begin, nor so many that a worker has: what there is to
// say.
std::string stuck(RunCore& run, std::uint64_t mine) {
  const std::uint64_t all = run.launch.grid.volume(), done = run.warp_instructions;
  const std::uint64_t left = all - std::min<std::uint64_t>(run.next_block, all) + mine;
  const auto now = std::chrono::steady_clock::now();
  if (left == 0 || !run.launch.stuck) return {};
  if (run.full_since.time_since_epoch().count() == 0 || done != run.done_when_full)
    run.full_since = now;
  run.done_when_full = done;
  if (now - run.full_since < run.launch.patience) return {};
  run.full_since = now + std::chrono::years(1);
  return fmt::format(
      "kernel {}: as many blocks are under way as the device holds at once, and none has ended for "
      "{} s; {} have not begun. If they wait for those, it never ends",
      run.program->kernel,
      std::chrono::duration_cast<std::chrono::seconds>(run.launch.patience).count(), left);
}

// Whether one more block may begin before one of those under way has ended. Those that take long
// are few, as each holds memory; twice as many where each has had some turns and none has ended.
bool may_begin(RunCore& run) {
  if (const std::uint64_t done = run.warp_instructions; done != run.done_at_turn) {
    run.done_at_turn = done;
    run.turns = 0;
  }
  const std::uint64_t waiting = run.paused.size();
  if (waiting >= run.most_paused && ++run.turns > kTurnsOfAll * (waiting + 1)) {
    run.most_paused = std::min(2 * run.most_paused, run.resident);
    run.turns = 0;
  }
  return waiting < run.most_paused;
}

// A block of a plain launch may wait for what others do, and not be the last of those that the
// device is said to hold: after some turns it waits behind them.
void give_way(RunCore& run, Worker& worker) {
  BlockRange& mine = worker.mine;
  std::unique_ptr<Block> next;
  std::string trouble;
  {
    const std::scoped_lock lock(run.mutex);
    const bool begins = may_begin(run);
    if (begins && mine.first == mine.last) mine = take_blocks(run);
    if (run.paused.size() >= run.resident) trouble = stuck(run, mine.last - mine.first);
    if (!begins || mine.first == mine.last) {
      if (run.paused.empty()) return;
      next = std::move(run.paused.front());
      run.paused.pop_front();
    }
    run.paused.push_back(std::move(worker.blocks.front()));
  }
  if (!trouble.empty()) run.launch.stuck(trouble);
  const bool begins = next == nullptr;
  turn_to(run, worker, begins ? std::make_unique<Block>() : std::move(next));
  if (begins) begin_block(run, worker, *worker.blocks.front(), mine.first++);
}

// Whether the thread is to go to another launch now, which this one may wait for.
bool leaves(const RunCore& run, Worker& worker) {
  if (!run.launch.others) return false;
  const auto now = std::chrono::steady_clock::now();
  if (worker.since.time_since_epoch().count() == 0) worker.since = now;
  if (now - worker.since < kTurnOfLaunch) return false;
  worker.since = now;
  return worker.left = run.launch.others();
}

// False: the worker leaves in the middle of it.
bool run_one(RunCore& run, Worker& worker) {
  for (int turns = 1; !worker.blocks.front()->failed; ++turns) {
    Block& block = *worker.blocks.front();
    if (block.live_threads == 0) break;
    if (!turn(run, block)) report_deadlock(block);
    if (turns % kTurnsOfBlock != 0 || block.live_threads == 0 || block.failed) continue;
    if (leaves(run, worker)) return false;
    give_way(run, worker);
  }
  end_block(run, *worker.blocks.front());
  return true;
}

// A worker that has nothing left goes on with a block that waits for its turn, so that none is left
// when all workers are done.
bool go_on_with_paused(RunCore& run, Worker& worker) {
  std::unique_lock lock(run.mutex);
  if (run.paused.empty()) return false;
  auto next = std::move(run.paused.front());
  run.paused.pop_front();
  lock.unlock();
  turn_to(run, worker, std::move(next));
  return true;
}

// As run_one(), for all of a cooperative launch.
bool run_in_turns(RunCore& run, Worker& worker, std::size_t count) {
  bool failed = false;
  for (std::size_t left = count; left > 0 && !failed;) {
    bool progress = false;
    left = 0;
    for (std::size_t i = 0; i < count && !failed; ++i) {
      Block& block = *worker.blocks[i];
      if (block.live_threads == 0) continue;
      ++left;
      progress = turn(run, block) || progress;
      failed = block.failed;
    }
    if (progress && !failed && leaves(run, worker)) return false;
    if (left == 0 || progress || failed) continue;
    for (std::size_t i = 0; i < count && !failed; ++i)
      if (worker.blocks[i]->live_threads > 0) {
        report_deadlock(*worker.blocks[i]);
        failed = true;
      }
  }
  for (std::size_t i = 0; i < count; ++i) end_block(run, *worker.blocks[i]);
  return true;
}

}  // namespace

void begin_block(RunCore& run, Worker& worker, Block& block, std::uint64_t linear) {
  const Extent& grid = run.launch.grid;
  block.run = &run;
  block.worker = &worker;
  block.linear = linear;
  block.index = {static_cast<std::uint32_t>(linear % grid.x),
                 static_cast<std::uint32_t>(linear / grid.x % grid.y),
                 static_cast<std::uint32_t>(linear / grid.x / grid.y)};
  block.live_threads = run.threads;
  block.failed = false;
  const bool has_shared = block.shared.reserve(run.shared_bytes + 128);
  block.warps.resize(run.warps);
  block.frames.resize(run.warps);
  block.started.assign(run.warps, 0);
  block.slices.assign(run.warps, 0);
  if (run.program->barriers != 0) {
    block.barriers.fill({});
    block.watches.clear();
    if (run.launch.checks.barriers) block.watches.resize(kBarriers);
  }
  if (run.launch.checks.barriers) block.absent_at.assign(run.warps, {});
  const std::uint32_t shift = run.program->accesses_bytes ? 0 : 2;
  if (run.launch.checks.races) begin_shadows(block, run.shared_bytes, shift);
  const bool values = run.launch.checks.uninitialised;
  if (values) block.written.assign(run.shared_bytes + 1, 0);
  if (values) block.undefined.assign(run.warps, {});
  for (std::uint32_t i = 0; i < run.warps; ++i) {
    Warp& w = block.warps[i];
    w.code = run.program->code.data();
    w.segment = w.code + run.program->entry;
    w.index = i;
    w.block = &block;
    w.shared = block.shared.data;
    w.shared_bytes = run.shared_bytes;
    w.local_bytes = run.program->local_bytes;
    w.check_races = run.launch.checks.races;
    w.check_barriers = run.launch.checks.barriers;
    w.shared_valid = values ? block.written.data() : nullptr;
    w.undefined = values ? &block.undefined[i] : nullptr;
    w.arrays = run.program->arrays.data();
    w.check_global = !run.published.empty();
    w.race = {block.writers.data(), block.readers.data(), &block.epoch, 0, 0, shift};
    w.sticky = false;
    w.spans = worker.spans.data();
    const std::uint32_t lanes = std::min(run.threads - i * kLanes, kLanes);
    w.live = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
    w.waiting_count = 1;
    w.parked_count = 0;
    w.waiting[0] = {run.program->entry, w.live};
    w.thread_instructions = w.warp_instructions = 0;
  }
  if (!has_shared)
    report(block.warps[0].segment, block.warps[0],
           {.kind = FaultKind::illegal, .about = "there is no memory for the block"});
}

bool execute_blocks(RunCore& run, Worker& worker) {
  const bool changed = worker.table_version != run.arena->version();
  if (changed) know_memory(*run.arena, worker);
  if (worker.spans_of != run.serial || changed) {
    worker.spans.assign(run.program->spans, {});
    worker.spans_of = run.serial;
  }
  worker.since = {};
  BlockRange& mine = worker.mine;
  bool goes_on = std::exchange(worker.left, false);
  if (!goes_on) mine = take_blocks(run);
  const bool together = run.launch.cooperative;
  const std::size_t count = together ? static_cast<std::size_t>(mine.last - mine.first) : 1;
  while (worker.blocks.size() < count) worker.blocks.push_back(std::make_unique<Block>());
  if (together) {
    for (std::size_t i = 0; i < count && !goes_on; ++i)
      begin_block(run, worker, *worker.blocks[i], mine.first + i);
    return run_in_turns(run, worker, count);
  }
  while (!run.ended.load(std::memory_order_relaxed)) {
    if (!std::exchange(goes_on, false)) {
      if (mine.first < mine.last)
        begin_block(run, worker, *worker.blocks.front(), mine.first++);
      else if (!go_on_with_paused(run, worker))
        return true;
    }
    if (!run_one(run, worker)) return false;
  }
  return true;
}

}  // namespace partita::ptx
