#include "ptx/bases.h"

#include <set>
#include <string_view>

namespace partita::ptx {
namespace {

constexpr ArrayBounds kUnknown = {};
constexpr ArrayBounds kNone = {0, 0};
constexpr ArrayBounds kSeveral = {1, 0};

bool same(const ArrayBounds& a, const ArrayBounds& b) {
  return a.begin == b.begin && a.end == b.end;
}
ArrayBounds meet(const ArrayBounds& a, const ArrayBounds& b) {
  return same(a, b) || same(b, kNone) ? a : same(a, kNone) ? b : kSeveral;
}

// Whether the result is an address where an operand is one.
bool keeps_addresses(std::string_view opcode) {
  static const std::set<std::string_view> kKeeps = {"mov", "add", "sub", "mad", "cvta",
                                                    "cvt", "or",  "xor", "and", "selp"};
  return kKeeps.contains(opcode);
}

class Bases {
 public:
  Bases(const FunctionFrames& frames, const FunctionFrame& frame)
      : frames_(frames), frame_(frame), of_(frame.function->registers.size(), kNone) {}

  std::vector<ArrayBounds> all() {
    for (bool changed = true; changed;) {
      changed = false;
      each_definition([&](ArrayBounds& to, const ArrayBounds& from) {
        const ArrayBounds met = meet(to, from);
        changed = changed || !same(met, to);
        to = met;
      });
    }
    // One that is something else by another definition is not known.
    for (bool changed = true; changed;) {
      changed = false;
      each_definition([&](ArrayBounds& to, const ArrayBounds& from) {
        if (same(to, from) || same(to, kSeveral)) return;
        to = kSeveral;
        changed = true;
      });
    }
    for (ArrayBounds& one : of_)
      if (same(one, kNone) || same(one, kSeveral)) one = kUnknown;
    return of_;
  }

 private:
  ArrayBounds of(const Operand& operand) const {
    if (operand.kind == Operand::Kind::symbol) {
      const ArrayBounds bounds = bounds_of(frames_, frame_, operand.text);
      return same(bounds, kUnknown) ? kNone : bounds;
    }
    const bool is_register = operand.kind == Operand::Kind::reg && operand.reg >= 0 &&
                             static_cast<std::size_t>(operand.reg) < of_.size();
    return is_register ? of_[static_cast<std::size_t>(operand.reg)] : kNone;
  }

  void each_definition(const auto& what) {
    for (const Instruction& instruction : frame_.function->code) {
      const auto& operands = instruction.operands;
      if (operands.empty()) continue;
      ArrayBounds from = kNone;
      for (std::size_t i = 1; keeps_addresses(instruction.opcode) && i < operands.size(); ++i)
        from = meet(from, of(operands[i]));
      const auto define = [&](const Operand& to) {
        if (to.kind == Operand::Kind::reg && to.reg >= 0 &&
            static_cast<std::size_t>(to.reg) < of_.size())
          what(of_[static_cast<std::size_t>(to.reg)], from);
      };
      define(operands[0]);
      for (const Operand& element : operands[0].elements) define(element);
    }
  }

  const FunctionFrames& frames_;
  const FunctionFrame& frame_;
  std::vector<ArrayBounds> of_;
};

}  // namespace

std::vector<ArrayBounds> shared_bases(const FunctionFrames& frames, const FunctionFrame& frame) {
  if (!frames.has_shared()) return {};
  return Bases(frames, frame).all();
}

ArrayBounds bounds_of(const FunctionFrames& frames, const FunctionFrame& frame,
                      const std::string& name) {
  const auto found = frames.symbol(frame, name);
  if (!found || found->what != Symbol::What::shared || found->bytes == 0) return kUnknown;
  const auto begin = static_cast<std::uint32_t>(found->value);
  return {begin, begin + found->bytes};
}

}  // namespace partita::ptx
