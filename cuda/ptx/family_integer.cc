// Arithmetic and logic of integers; what floats have too goes to them by its type.
#include "ptx/families.h"

namespace partita::ptx::integers {
namespace {

Type twice(Type type) {
  return type == Type::u16   ? Type::u32
         : type == Type::s16 ? Type::s32
         : type == Type::u32 ? Type::u64
         : type == Type::s32 ? Type::s64
                             : Type::none;
}

// addc subc madc, and add sub mad with .cc
void carry(Site& at) {
  const std::string& opcode = at.now->opcode;
  const bool out = at.words.take("cc") || opcode == "add" || opcode == "sub";
  const Type type = at.words.type(0);
  const bool mad = opcode == "mad" || opcode == "madc";
  const std::string part = mad ? "." + at.words.take_any({"lo", "hi"}) : std::string();
  const bool writes = out || opcode == "mad";
  Slots slots = mad ? at.slots(type, {type, type, type}) : at.slots(type, {type, type});
  slots.e = at.frame->carry_slot;
  at.emit(opcode + part + (writes ? ".cc" : "") + "." + (mad ? signed_name(type) : bits_name(type)),
          slots);
}

// add sub mul min max div rem
void arithmetic(Site& at) {
  const Type type = at.words.type(0);
  std::string name = at.now->opcode;
  if (const std::string pair = at.words.take_any({"u16x2", "s16x2"}); !pair.empty())
    return at.emit_plain(name + "." + pair, Type::b32, {Type::b32, Type::b32});
  if (is_float(type)) return float_op(at, name, 2);
  if (at.words.take("cc")) return carry(at);
  Type to = type;
  if (name == "mul") {
    const std::string part = at.words.take_any({"lo", "hi", "wide"});
    name += "." + part;
    if (part == "wide") to = twice(type);
  }
  const bool saturate = at.words.take("sat");
  if (saturate) name += ".sat";
  const bool sign_matters = saturate || (name != "add" && name != "sub" && name != "mul.lo");
  if (!at.count_is(3) || to == Type::none) return at.refuse("has a type it cannot have");
  at.emit_plain(name + "." + (sign_matters ? signed_name(type) : bits_name(type)), to,
                {type, type});
}

// neg abs not cnot brev
void unary(Site& at) {
  const Type type = at.words.type(0);
  const std::string& opcode = at.now->opcode;
  if (is_float(type) && (opcode == "neg" || opcode == "abs")) return float_op(at, opcode, 1);
  const Slots slots = at.slots(type, {type});
  if (type == Type::pred && opcode == "not")
    at.emit(control::pred_not, slots);
  else
    at.emit(opcode + "." + (opcode == "abs" ? signed_name(type) : bits_name(type)), slots);
}

void logic(Site& at) {
  const Type type = at.words.type(0);
  const std::string& opcode = at.now->opcode;
  const Slots slots = at.slots(type, {type, type});
  if (type == Type::pred)
    at.emit(opcode == "and"  ? control::pred_and
            : opcode == "or" ? control::pred_or
                             : control::pred_xor,
            slots);
  else
    at.emit(opcode + "." + bits_name(type), slots);
}

void mad(Site& at) {
  const Type type = at.words.type(0);
  if (is_float(type)) return float_op(at, "fma", 3);
  if (at.now->opcode == "madc" || at.words.take("cc")) return carry(at);
  const std::string part = at.words.take_any({"lo", "hi", "wide"});
  const bool saturate = at.words.take("sat");
  const Type to = part == "wide" ? twice(type) : type;
  if (!at.count_is(4) || to == Type::none) return at.refuse("has a type it cannot have");
  at.emit_plain("mad." + part + (saturate ? ".sat" : "") + "." +
                    (part == "lo" ? bits_name(type) : signed_name(type)),
                to, {type, type, to});
}

void mul24(Site& at) {
  const Type type = at.words.type(0);
  const bool adds = at.now->opcode == "mad24";
  const std::string part = at.words.take_any({"lo", "hi"});
  const std::string name =
      at.now->opcode + "." + part + (at.words.take("sat") ? ".sat." : ".") + signed_name(type);
  const Slots slots = adds ? at.slots(type, {type, type, type}) : at.slots(type, {type, type});
  at.emit(name, slots);
}

void shift(Site& at) {
  const Type type = at.words.type(0);
  const std::string& opcode = at.now->opcode;
  if (!at.count_is(3)) return;
  const Slots slots{at.destination(0, type), at.source(1, type),
                    at.loose_source(at.operand(2), Type::u32)};
  at.emit(opcode + "." + (opcode == "shl" ? bits_name(type) : signed_name(type)), slots);
}

void funnel_shift(Site& at) {
  const std::string side = at.words.take_any({"l", "r"});
  const std::string mode = at.words.take_any({"clamp", "wrap"});
  at.emit_plain("shf." + side + "." + mode + ".u32", Type::b32, {Type::b32, Type::b32, Type::u32});
}

// popc clz bfind: a count of any type
void count(Site& at) {
  const Type type = at.words.type(0);
  const std::string& opcode = at.now->opcode;
  const bool shift = at.words.take("shiftamt");
  at.emit_plain(opcode + (shift ? ".shiftamt." : ".") +
                    (opcode == "bfind" ? signed_name(type) : bits_name(type)),
                Type::u32, {type});
}

void extract(Site& at) {
  const Type type = at.words.type(0);
  at.emit_plain("bfe." + signed_name(type), type, {type, Type::u32, Type::u32});
}
void insert(Site& at) {
  const Type type = at.words.type(0);
  at.emit_plain("bfi." + bits_name(type), type, {type, type, Type::u32, Type::u32});
}

void dot(Site& at) {
  std::string name = at.now->opcode;
  if (name == "dp2a") name += "." + at.words.take_any({"lo", "hi"});
  at.emit_plain(name + "." + signed_name(at.words.type(0)) + "." + signed_name(at.words.type(1)),
                Type::b32, {Type::b32, Type::b32, Type::b32});
}

// lop3 prmt fns sad bmsk
void several(Site& at) {
  const Type type = at.words.type(0);
  const std::string& opcode = at.now->opcode;
  std::string name = opcode;
  const std::string mode =
      at.words.take_any({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", "clamp", "wrap"});
  if (!mode.empty()) name += "." + mode;
  const std::size_t sources = name == "lop3" ? 4 : opcode == "bmsk" ? 2 : 3;
  if (!at.count_is(sources + 1)) return;
  std::uint32_t in[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i < sources; ++i) in[i] = at.source(i + 1, type);
  at.emit(name + "." + (name == "sad" ? signed_name(type) : bits_name(type)),
          {at.destination(0, type), in[0], in[1], in[2], in[3]});
}

// Four bytes: how far they are apart, summed.
void byte_distances(Site& at) {
  const bool adds = at.words.take("add");
  const bool is_plain = at.words.type(0) == Type::u32 && at.words.type(1) == Type::u32 &&
                        at.words.type(2) == Type::u32;
  if (!adds || !is_plain) return at.refuse("is not supported");
  if (!at.count_is(4)) return;
  const std::uint32_t a = at.source(1, Type::b32), b = at.source(2, Type::b32);
  const std::uint32_t first = at.registers.temporary(4), second = at.registers.temporary(4);
  const std::uint32_t eight = at.registers.constant(8, 4), sum = at.registers.temporary(4);
  for (std::uint32_t byte = 0; byte < 4; ++byte) {
    const std::uint32_t begin = at.registers.constant(8 * byte, 4);
    at.emit("bfe.u32", {first, a, begin, eight});
    at.emit("bfe.u32", {second, b, begin, eight});
    const std::uint32_t before = byte == 0 ? at.source(3, Type::u32) : sum;
    at.emit("sad.u32", {byte == 3 ? at.destination(0, Type::u32) : sum, first, second, before});
  }
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {{"add", arithmetic},
                                        {"sub", arithmetic},
                                        {"mul", arithmetic},
                                        {"min", arithmetic},
                                        {"max", arithmetic},
                                        {"div", arithmetic},
                                        {"rem", arithmetic},
                                        {"addc", carry},
                                        {"subc", carry},
                                        {"neg", unary},
                                        {"abs", unary},
                                        {"not", unary},
                                        {"cnot", unary},
                                        {"brev", unary},
                                        {"and", logic},
                                        {"or", logic},
                                        {"xor", logic},
                                        {"mad", mad},
                                        {"madc", mad},
                                        {"mul24", mul24},
                                        {"mad24", mul24},
                                        {"shl", shift},
                                        {"shr", shift},
                                        {"shf", funnel_shift},
                                        {"popc", count},
                                        {"clz", count},
                                        {"bfind", count},
                                        {"bfe", extract},
                                        {"bfi", insert},
                                        {"dp4a", dot},
                                        {"dp2a", dot},
                                        {"lop3", several},
                                        {"prmt", several},
                                        {"fns", several},
                                        {"sad", several},
                                        {"bmsk", several},
                                        {"vabsdiff4", byte_distances}};
  return kOpcodes;
}

}  // namespace partita::ptx::integers
