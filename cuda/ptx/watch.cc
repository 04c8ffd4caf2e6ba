#include "ptx/watch.h"

#include <algorithm>
#include <cstring>

#include "ptx/control.h"
#include "ptx/exec.h"

namespace partita::ptx {
namespace {

// Bytes of a lane's register; 0: a predicate.
std::uint32_t bytes_of(Type type) {
  return type == Type::pred ? 0 : static_cast<std::uint32_t>(size_of(type));
}

class View final : public WarpView {
 public:
  View(const Op* op, Warp& w) : op_(op), w_(w), run_(*w.block->run) {}

  Extent block() const override { return w_.block->index; }
  std::uint32_t warp() const override { return w_.index; }
  std::uint32_t executing() const override { return w_.mask; }
  std::uint32_t live() const override { return w_.live; }
  int line() const override { return line_of(pc_of(op_, w_)); }
  std::string_view text_of(int line) const override {
    const auto& lines = run_.loaded->lines;
    const auto at = static_cast<std::size_t>(line);
    return line >= 1 && at <= lines.size() ? lines[at - 1] : std::string_view();
  }

  std::optional<RegisterValue> value(const std::string& name, unsigned lane) const override {
    const FunctionPlace& in = function_at(*run_.program, pc_of(op_, w_));
    const auto& all = in.function->registers;
    const auto found = std::ranges::find(all, name, &Register::name);
    if (found == all.end()) return std::nullopt;
    const std::uint32_t slot = in.slots[static_cast<std::size_t>(found - all.begin())];
    RegisterValue value{.type = found->type};
    const std::uint32_t bytes = bytes_of(found->type);
    if (bytes == 0)
      value.bits = mask_register(w_, slot) >> lane & 1;
    else
      std::memcpy(&value.bits, w_.registers + slot + std::size_t{lane} * bytes,
                  std::min<std::size_t>(bytes, sizeof value.bits));
    return value;
  }
  std::vector<std::string> registers() const override {
    std::vector<std::string> names;
    for (const Register& one : function_at(*run_.program, pc_of(op_, w_)).function->registers)
      names.push_back(one.name);
    return names;
  }
  bool read(unsigned lane, std::uint64_t address, std::span<std::byte> to) const override {
    return peek_generic(w_, lane, address, to);
  }

  std::vector<Call> calls(unsigned lane) const override {
    std::vector<Call> calls;
    std::uint32_t pc = pc_of(op_, w_);
    for (std::size_t most = run_.program->functions.size(); most > 0; --most) {
      const FunctionPlace& in = function_at(*run_.program, pc);
      calls.push_back({in.function->name, line_of(pc)});
      if (in.callee < 0) break;
      const Callee& callee = run_.program->callees[static_cast<std::size_t>(in.callee)];
      pc = lane_registers<std::uint32_t>(w_, callee.return_slot)[lane];
      if (pc == 0 || pc >= run_.program->code.size()) break;
      --pc;  // the call itself
    }
    return calls;
  }

 private:
  int line_of(std::uint32_t pc) const {
    return run_.program->origins[run_.program->code[pc].ordinal].line;
  }

  const Op* op_;
  Warp& w_;
  const RunCore& run_;
};

}  // namespace

const FunctionPlace& function_at(const Program& program, std::uint32_t pc) {
  const FunctionPlace* in = nullptr;
  for (const FunctionPlace& one : program.functions)
    if (one.entry <= pc && (in == nullptr || one.entry >= in->entry)) in = &one;
  return *in;
}

void run_watched(const Op* op, Warp& w) {
  RunCore& run = *w.block->run;
  Watcher* const watcher = run.launch.watcher;
  const Op *before = nullptr, *followed = nullptr;
  while (op != nullptr) {
    // Several ops may be one instruction.
    const auto begins = [op](const Op* last) {
      return last == nullptr || op <= last || op->ordinal != last->ordinal;
    };
    if (watcher != nullptr && begins(before)) {
      watcher->before(View(op, w));
      if (run.stop.load(std::memory_order_relaxed)) {  // by the watcher, who knows of it
        w.block->failed = true;
        run.ended.store(true, std::memory_order_relaxed);
        return;
      }
    }
    if (op->fn != control::head) {  // where others of the warp may join
      if (w.undefined != nullptr && !w.undefined->lanes.empty() && begins(followed))
        follow_undefined(op, w);
      followed = op;
    }
    const std::size_t faults = run.faults.size();
    before = op;
    op = op->fn(op, w);
    if (watcher == nullptr || run.faults.size() <= faults) continue;
    const Fault& fault = run.faults.back();
    const Extent& size = run.launch.block;
    const auto& [x, y, z] = fault.thread;
    watcher->failed(View(before, w), fault, ((z * size.y + y) * size.x + x) % kLanes);
  }
}

}  // namespace partita::ptx
