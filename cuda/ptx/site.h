// Site: the instruction that is decoded now, and what a decoder of a family (families.h) needs of
// it: its words, its operands as slots of registers, and where its ops go.
#pragma once

#include <initializer_list>
#include <string>

#include "ptx/function_frames.h"
#include "ptx/levels.h"
#include "ptx/modifiers.h"

namespace partita::ptx {

// What an op reads and writes.
struct Slots {
  std::uint32_t d = 0, a = 0, b = 0, c = 0, e = 0;
};

class Site {
 public:
  Site(Program& to, RegisterFile& registers, FunctionFrames& frames, FirstRefusal& refusal);
  // The next instruction, with its number among those of the program.
  void begin(FunctionFrame& of, const Instruction& instruction, std::uint32_t ordinal);

  void refuse(const std::string& what) { refusal_.refuse(what); }
  bool failed() const { return refusal_.error.has_value(); }

  // Operands, from 0. What is not there is refused.
  const Operand& operand(std::size_t i);
  bool count_is(std::size_t count);
  std::uint32_t register_bytes(const Operand& operand);  // 0 where it is no register
  std::uint32_t register_slot(const Operand& operand);
  std::uint32_t guard_slot();

  std::uint32_t source(const Operand& operand, Type type);
  std::uint32_t source(std::size_t i, Type type) { return source(operand(i), type); }
  // A register may be wider than the type (ld, st, cvt): its lower part.
  std::uint32_t loose_source(const Operand& operand, Type type);
  std::uint32_t predicate(const Operand& operand);  // handles !%p by an op
  std::uint32_t destination(const Operand& operand, Type type);
  std::uint32_t destination(std::size_t i, Type type) { return destination(operand(i), type); }
  // A register of a narrower or wider type: what to write, and what settle() does then.
  struct Target {
    std::uint32_t slot = 0;
    std::uint32_t final_slot = 0;
    std::uint32_t from = 0, to = 0;  // bytes
    bool is_signed = false;
  };
  Target loose_destination(const Operand& operand, Type type);
  void settle(const Target& target);
  std::uint32_t resized(std::uint32_t slot, std::uint32_t from, std::uint32_t to, bool is_signed);
  // All operands: d, then a, b, c, e.
  Slots slots(Type to, std::initializer_list<Type> from);

  Op& emit(OpFn fn, const Slots& slots = {}, std::uint32_t flags = 0);
  // By its name; refused where there is none.
  Op& emit(const std::string& name, const Slots& slots = {}, std::uint32_t flags = 0);
  void emit_resize(std::uint32_t to_slot, std::uint32_t from_slot, std::uint32_t to,
                   std::uint32_t from, bool is_signed);
  // An op with all operands.
  void emit_plain(const std::string& name, Type to, std::initializer_list<Type> from);

  Program& program;
  RegisterFile& registers;
  FunctionFrames& frames;
  FunctionFrame* frame = nullptr;
  const Instruction* now = nullptr;
  Modifiers words = Modifiers();
  std::uint32_t ordinal = 0;

 private:
  std::uint32_t special(const Operand& operand, Type type);

  FirstRefusal& refusal_;
  const OpNames& ops_;
};

// The bits of a number as one of a type.
std::uint64_t literal(const Operand& operand, Type type);

}  // namespace partita::ptx
