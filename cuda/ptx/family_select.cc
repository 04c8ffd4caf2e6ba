// Comparisons, and what chooses by them.
#include <map>
#include <utility>

#include "ptx/families.h"

namespace partita::ptx::selects {
namespace {

std::string comparison(Site& at) {
  return at.words.take_any({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ",
                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
}

void compare_into(Site& at, Slots to, const std::string& how, Type type) {
  static const std::map<std::string_view, std::string_view> kUnsigned = {
      {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
  const auto renamed = kUnsigned.find(how);
  const bool is_unsigned = renamed != kUnsigned.end();
  const bool flush = at.words.take("ftz");
  const std::string boolean = at.words.take_any({"and", "or", "xor"});
  if (!at.count_is(boolean.empty() ? 3 : 4)) return;
  to.a = at.source(1, type);
  to.b = at.source(2, type);
  std::uint32_t flags = to.e != 0 ? kSecondResult : 0;
  if (!boolean.empty()) {
    Operand third = at.operand(3);
    if (std::exchange(third.negated, false)) flags |= kNegateC;
    to.c = at.predicate(third);
    flags |= boolean == "and" ? kBoolAnd : boolean == "or" ? kBoolOr : kBoolXor;
  }
  std::string name = "setp." + (is_unsigned ? std::string(renamed->second) : how);
  if (is_float(type))
    name += (flush && type == Type::f32 ? ".ftz." : ".") + to_string(type);
  else
    name += "." + (is_unsigned ? bits_name(type) : signed_name(type));
  at.emit(name, to, flags);
}

// One predicate per half.
void setp_halves(Site& at, const std::string& how, Type type) {
  const Operand& to = at.operand(0);
  if (to.kind != Operand::Kind::pair || to.elements.size() != 2 || !at.count_is(3))
    return at.refuse("has no pair of results");
  at.words.take("ftz");
  const std::uint32_t a = at.source(1, Type::b32), b = at.source(2, Type::b32);
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint32_t x = at.registers.temporary(2), y = at.registers.temporary(2);
    const std::string part = half == 0 ? "part.u32.0" : "part.u32.16";
    at.emit(part, {.d = x, .a = a});
    at.emit(part, {.d = y, .a = b});
    at.emit("setp." + how + "." + (type == Type::f16x2 ? "f16" : "bf16"),
            {at.destination(to.elements[half], Type::pred), x, y});
  }
}

void setp(Site& at) {
  const std::string how = comparison(at);
  const Type type = at.words.type(0);
  const Operand& to = at.operand(0);
  if (how.empty() || at.failed()) return at.refuse("has no comparison that is known");
  if (type == Type::f16x2 || type == Type::bf16x2) return setp_halves(at, how, type);
  const bool pair = to.kind == Operand::Kind::pair && to.elements.size() == 2;
  Slots slots{.d = at.destination(pair ? to.elements[0] : to, Type::pred)};
  if (pair) slots.e = at.destination(to.elements[1], Type::pred);
  compare_into(at, slots, how, type);
}

void set(Site& at) {
  const std::string how = comparison(at);
  const Type to = at.words.type(0), type = at.words.type(1);
  if (how.empty()) return at.refuse("has no comparison that is known");
  const std::uint32_t p = at.registers.temporary(0);
  compare_into(at, {.d = p}, how, type);
  if (at.failed() || is_half(to)) return at.refuse("has a type it cannot have");
  const std::uint64_t yes = to == Type::f32 ? 0x3f80'0000u : ~std::uint64_t{0};
  const std::uint32_t bytes = register_bytes_of(to);
  const Slots slots{at.destination(0, to), at.registers.constant(yes, bytes),
                    at.registers.constant(0, bytes), p};
  at.emit("selp." + bits_name(to), slots);
}

void selp(Site& at) {
  const Type type = at.words.type(0);
  if (!at.count_is(4)) return;
  const Slots slots{at.destination(0, type), at.source(1, type), at.source(2, type),
                    at.predicate(at.operand(3))};
  if (type == Type::pred)
    at.emit(control::pred_select, slots);
  else
    at.emit("selp." + bits_name(type), slots);
}

void slct(Site& at) {
  at.words.take("ftz");
  const Type type = at.words.type(0), by = at.words.type(1);
  at.emit_plain("slct." + bits_name(type) + "." + to_string(by), type, {type, type, by});
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {
      {"setp", setp}, {"set", set}, {"selp", selp}, {"slct", slct}};
  return kOpcodes;
}

}  // namespace partita::ptx::selects
