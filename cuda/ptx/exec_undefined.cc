// What a shuffle reads of a lane that takes no part in it is undefined. To read it is no fault: the
// end of a reduction does so and drops it. To store it, to go where it points or to branch on it is
// one. While a warp has such values it runs instruction by instruction, and the text is followed
// (Checks::uninitialised). What goes through memory, calls or votes is lost from sight.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "ptx/control.h"
#include "ptx/exec.h"

namespace partita::ptx {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}
bool has(const Instruction& now, std::string_view modifier) {
  return std::ranges::find(now.modifiers, modifier) != now.modifiers.end();
}

// One instruction, before the lanes of the mask carry it out.
class Tracker {
 public:
  Tracker(const Op* op, Warp& w, const FunctionPlace& in, const Instruction& now)
      : op_(op), w_(w), in_(in), now_(now), mask_(w.mask) {}

  void look() {
    if (now_.guard) {
      const std::uint32_t slot = in_.slots[static_cast<std::size_t>(now_.guard->reg)];
      need(w_.undefined->of(slot));
      mask_ &= mask_register(w_, slot) ^ (now_.guard->negated ? kAllLanes : 0);
    }
    const std::string& what = now_.opcode;
    if (is_one_of(what, {"bra", "shfl"}) || now_.operands.empty()) return;  // a shuffle sees itself
    if (is_one_of(what, {"st", "red", "atom", "ld", "brx"})) return access();
    if (is_one_of(what, {"vote", "match", "redux", "elect", "call"}))
      return set(now_.operands[0], 0);
    set(now_.operands[0], what == "selp" && now_.operands.size() == 4 ? selected() : computed());
  }

 private:
  void access() {
    const bool loads = now_.opcode == "ld", has_result = loads || now_.opcode == "atom";
    if (now_.opcode != "st" || !(has(now_, "param") || has(now_, "local")))
      for (std::size_t i = has_result ? 1 : 0; i < now_.operands.size(); ++i)
        need(of(now_.operands[i]));
    if (has_result) set(now_.operands[0], 0);
  }
  std::uint32_t selected() const {
    const Operand& p = now_.operands[3];
    const std::uint32_t holds = p.reg < 0 ? 0 : predicate(p);
    return of(p) | (of(now_.operands[1]) & holds) | (of(now_.operands[2]) & ~holds);
  }
  std::uint32_t computed() const {
    std::uint32_t lanes = 0, decided = 0;
    for (std::size_t i = 1; i < now_.operands.size(); ++i) {
      lanes |= of(now_.operands[i]);
      decided |= decides(i);
    }
    return lanes & ~decided;
  }
  // Lanes in which the operand is defined and makes the result what it is alone: 0 of a product,
  // false of "and", true of "or".
  std::uint32_t decides(std::size_t i) const {
    const Operand& operand = now_.operands[i];
    if (operand.reg < 0 || operand.kind != Operand::Kind::reg) return 0;
    const auto reg = static_cast<std::size_t>(operand.reg);
    const Type type = in_.function->registers[reg].type;
    const bool compares = now_.opcode == "setp";
    if (type == Type::pred) {
      const std::uint32_t holds = predicate(operand) & ~of(operand);
      if (now_.opcode == "or" || (compares && has(now_, "or"))) return holds;
      const bool all = now_.opcode == "and" || (compares && has(now_, "and"));
      return all ? ~predicate(operand) & ~of(operand) : 0;
    }
    if (!is_one_of(now_.opcode, {"and", "mul"})) return 0;
    const std::size_t bytes = size_of(type);
    std::uint32_t lanes = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::uint64_t bits = 0;
      const std::byte* const at = w_.registers + in_.slots[reg] + lane * bytes;
      std::memcpy(&bits, at, std::min(bytes, sizeof bits));
      lanes |= bits == 0 ? 1u << lane : 0;
    }
    return lanes & ~of(operand);
  }
  std::uint32_t predicate(const Operand& operand) const {
    return mask_register(w_, in_.slots[static_cast<std::size_t>(operand.reg)]) ^
           (operand.negated ? kAllLanes : 0);
  }
  std::uint32_t of(const Operand& operand) const {
    std::uint32_t lanes = 0;
    if (operand.reg >= 0)
      lanes = w_.undefined->of(in_.slots[static_cast<std::size_t>(operand.reg)]);
    for (const Operand& element : operand.elements) lanes |= of(element);
    return lanes;
  }
  void set(const Operand& operand, std::uint32_t lanes) {
    if (operand.reg >= 0)
      w_.undefined->set(in_.slots[static_cast<std::size_t>(operand.reg)], mask_, lanes);
    for (const Operand& element : operand.elements) set(element, lanes);
  }
  void need(std::uint32_t lanes) {
    lanes &= mask_;
    if (lanes == 0) return;
    Undefined& undefined = *w_.undefined;
    report(op_, w_,
           {.kind = FaultKind::uninitialised,
            .lane = static_cast<unsigned>(__builtin_ctz(lanes)),
            .about = fmt::format("a value that it needs is of the shuffle at line {}, which read "
                                 "it from lane {}: that took no part",
                                 undefined.line, undefined.from)});
    undefined.lanes.clear();  // said once
  }

  const Op* op_;
  Warp& w_;
  const FunctionPlace& in_;
  const Instruction& now_;
  std::uint32_t mask_;
};

}  // namespace

std::uint32_t Undefined::of(std::uint32_t slot) const {
  const auto found = lanes.find(slot);
  return found == lanes.end() ? 0 : found->second;
}
void Undefined::set(std::uint32_t slot, std::uint32_t mask, std::uint32_t now) {
  const std::uint32_t all = (of(slot) & ~mask) | (now & mask);
  if (all == 0)
    lanes.erase(slot);
  else
    lanes[slot] = all;
}

bool note_shuffled(const Op* op, Warp& w, const std::uint32_t* from, std::uint32_t here,
                   std::uint32_t before) {
  Undefined& undefined = *w.undefined;
  const bool followed = !undefined.lanes.empty();
  const auto* members = lane_registers<std::uint32_t>(w, op->e);
  if (!followed && undefined.left == 0) return false;
  std::uint32_t lanes = 0;
  for (std::uint32_t left = w.mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    const std::uint32_t other = from[lane] & 31;
    const bool there = (here & members[lane]) >> other & 1;
    if (there && (before >> other & 1) == 0) continue;
    lanes |= 1u << lane;
    if (there) continue;
    undefined.from = other;
    undefined.line = w.block->run->program->origins[op->ordinal].line;
  }
  undefined.set(op->d, w.mask, lanes);
  return !followed && lanes != 0;
}

void follow_undefined(const Op* op, Warp& w) {
  Undefined& undefined = *w.undefined;
  if (undefined.left == 0) return undefined.lanes.clear();
  --undefined.left;
  const Program& program = *w.block->run->program;
  const FunctionPlace& in = function_at(program, pc_of(op, w));
  const std::size_t at = op->ordinal - program.code[in.entry].ordinal;
  if (at < in.function->code.size()) Tracker(op, w, in, in.function->code[at]).look();
}

}  // namespace partita::ptx
