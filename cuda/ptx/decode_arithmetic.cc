// Arithmetic, logic, comparisons.
#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

std::string bits_name(Type type) { return "u" + std::to_string(8 * register_bytes_of(type)); }
std::string signed_name(Type type) {
  return (is_signed(type) ? "s" : "u") + std::to_string(8 * register_bytes_of(type));
}
Type bits_type(std::uint32_t bytes) {
  return bytes == 8 ? Type::b64 : bytes == 4 ? Type::b32 : Type::b16;
}
Type twice(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      return Type::none;
  }
}

}  // namespace

void Decoder::round(const std::string& mode) {
  if (mode == "rz" || mode == "rm" || mode == "rp")
    emit(control::rounding).flags = mode == "rz" ? 1 : mode == "rm" ? 2 : 3;
}

void Decoder::float_arithmetic(const std::string& base, std::size_t sources, Type type) {
  std::string name = base;
  const std::string mode = words_->take_any({"rn", "rz", "rm", "rp", "approx", "full"});
  const bool flush = words_->take("ftz");
  if (words_->take("NaN")) name += ".NaN";
  if (words_->take("xorsign")) {
    words_->take("abs");
    name += ".xorsign.abs";
  }
  const bool saturate = words_->take("sat");
  if (flush && type == Type::f32) name += ".ftz";
  if (saturate && type == Type::f32) name += ".sat";
  if (!count_is(sources + 1)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type);
  const std::uint32_t b = sources > 1 ? source(2, type) : 0;
  const std::uint32_t c = sources > 2 ? source(3, type) : 0;
  round(mode);
  Op& op = emit(name + "." + to_string(type));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

void Decoder::half_arithmetic(const std::string& base, std::size_t sources, Type type) {
  std::string name = base;
  words_->take("rn");
  words_->take("approx");
  const bool flush = words_->take("ftz");
  if (words_->take("NaN")) name += ".NaN";
  const bool saturate = words_->take("sat"), relu = words_->take("relu");
  if (!count_is(sources + 1)) return;
  const std::string suffix = "." + to_string(type);
  std::uint32_t in[3] = {0, 0, 0};
  for (std::size_t i = 0; i < sources; ++i) {
    in[i] = source(i + 1, type);
    if (!flush) continue;
    const std::uint32_t flushed = temporary(register_bytes_of(type));
    Op& op = emit("flush" + suffix);
    op.d = flushed;
    op.a = in[i];
    in[i] = flushed;
  }
  const std::uint32_t d = destination(0, type);
  Op& op = emit(name + suffix);
  op.d = d;
  op.a = in[0];
  op.b = in[1];
  op.c = in[2];
  for (const std::string_view after :
       {saturate ? "saturate" : "", relu ? "relu" : "", flush ? "flush" : ""}) {
    if (after.empty()) continue;
    Op& more = emit(std::string(after) + suffix);
    more.d = more.a = d;
  }
}

// add sub mul min max div rem
void Decoder::on_arithmetic() {
  const Type type = words_->type(0);
  if (const std::string pair = words_->take_any({"u16x2", "s16x2"}); !pair.empty()) {
    if (!count_is(3)) return;
    const std::uint32_t d = destination(0, Type::b32), a = source(1, Type::b32);
    const std::uint32_t b = source(2, Type::b32);
    Op& op = emit(now_->opcode + "." + pair);
    op.d = d;
    op.a = a;
    op.b = b;
    return;
  }
  if (is_half(type)) return half_arithmetic(now_->opcode, 2, type);
  if (is_float(type)) return float_arithmetic(now_->opcode, 2, type);
  if (words_->take("cc")) return on_carry();
  std::string name = now_->opcode;
  const bool is_mul = name == "mul";
  Type to = type;
  if (is_mul) {
    const std::string part = words_->take_any({"lo", "hi", "wide"});
    name += "." + part;
    if (part == "wide") to = twice(type);
  }
  const bool saturate = words_->take("sat");
  if (saturate) name += ".sat";
  const bool sign_matters = saturate || (name != "add" && name != "sub" && name != "mul.lo");
  if (!count_is(3) || to == Type::none) return refuse("has a type it cannot have");
  const std::uint32_t d = destination(0, to), a = source(1, type), b = source(2, type);
  Op& op = emit(name + "." + (sign_matters ? signed_name(type) : bits_name(type)));
  op.d = d;
  op.a = a;
  op.b = b;
}

void Decoder::on_carry() {
  const bool out = words_->take("cc") || now_->opcode == "add" || now_->opcode == "sub";
  const Type type = words_->type(0);
  const bool mad = now_->opcode == "mad" || now_->opcode == "madc";
  const std::string part = mad ? "." + words_->take_any({"lo", "hi"}) : std::string();
  const bool writes = out || now_->opcode == "mad";
  if (!count_is(mad ? 4 : 3)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type), b = source(2, type);
  const std::uint32_t c = mad ? source(3, type) : 0;
  Op& op = emit(now_->opcode + part + (writes ? ".cc" : "") + "." +
                (mad ? signed_name(type) : bits_name(type)));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
  op.e = frame_->carry_slot;
}

// neg abs sqrt rcp rsqrt sin cos ex2 lg2 tanh; neg and abs of integers too
void Decoder::on_float1() {
  const Type type = words_->type(0);
  if (is_half(type)) return half_arithmetic(now_->opcode, 1, type);
  if (is_float(type)) return float_arithmetic(now_->opcode, 1, type);
  on_integer1();
}

// neg abs not cnot brev
void Decoder::on_integer1() {
  const Type type = words_->type(0);
  if (!count_is(2)) return;
  if (type == Type::pred && now_->opcode == "not") {
    const std::uint32_t d = destination(0, type), a = source(1, type);
    Op& op = emit(control::pred_not);
    op.d = d;
    op.a = a;
    return;
  }
  const std::uint32_t d = destination(0, type), a = source(1, type);
  Op& op = emit(now_->opcode + "." + (now_->opcode == "abs" ? signed_name(type) : bits_name(type)));
  op.d = d;
  op.a = a;
}

void Decoder::on_logic() {
  const Type type = words_->type(0);
  if (!count_is(3)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type), b = source(2, type);
  if (type == Type::pred) {
    Op& op = emit(now_->opcode == "and"  ? control::pred_and
                  : now_->opcode == "or" ? control::pred_or
                                         : control::pred_xor);
    op.d = d;
    op.a = a;
    op.b = b;
    return;
  }
  Op& op = emit(now_->opcode + "." + bits_name(type));
  op.d = d;
  op.a = a;
  op.b = b;
}

void Decoder::on_fma() {
  const Type type = words_->type(0);
  if (is_half(type)) return half_arithmetic("fma", 3, type);
  float_arithmetic("fma", 3, type);
}

void Decoder::on_mad() {
  const Type type = words_->type(0);
  if (is_float(type)) return on_fma();
  if (now_->opcode == "madc" || words_->take("cc")) return on_carry();
  const std::string part = words_->take_any({"lo", "hi", "wide"});
  const bool saturate = words_->take("sat");
  const Type to = part == "wide" ? twice(type) : type;
  if (!count_is(4) || to == Type::none) return refuse("has a type it cannot have");
  const std::uint32_t d = destination(0, to), a = source(1, type), b = source(2, type);
  const std::uint32_t c = source(3, to);
  Op& op = emit("mad." + part + (saturate ? ".sat" : "") + "." +
                (part == "lo" ? bits_name(type) : signed_name(type)));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

void Decoder::on_mul24() {
  const Type type = words_->type(0);
  const bool mad = now_->opcode == "mad24";
  const std::string part = words_->take_any({"lo", "hi"});
  const bool saturate = words_->take("sat");
  if (!count_is(mad ? 4 : 3)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type), b = source(2, type);
  const std::uint32_t c = mad ? source(3, type) : 0;
  Op& op = emit(now_->opcode + "." + part + (saturate ? ".sat." : ".") + signed_name(type));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

void Decoder::on_shift() {
  const Type type = words_->type(0);
  if (!count_is(3)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type);
  const std::uint32_t b = loose_source(operand(2), Type::u32);
  Op& op = emit(now_->opcode + "." + (now_->opcode == "shl" ? bits_name(type) : signed_name(type)));
  op.d = d;
  op.a = a;
  op.b = b;
}

void Decoder::on_funnel() {
  const std::string side = words_->take_any({"l", "r"});
  const std::string mode = words_->take_any({"clamp", "wrap"});
  if (!count_is(4)) return;
  const std::uint32_t d = destination(0, Type::b32), a = source(1, Type::b32);
  const std::uint32_t b = source(2, Type::b32), c = source(3, Type::u32);
  Op& op = emit("shf." + side + "." + mode + ".u32");
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

// popc clz bfind: a count of any type
void Decoder::on_count() {
  const Type type = words_->type(0);
  const bool shift = words_->take("shiftamt");
  if (!count_is(2)) return;
  const std::uint32_t d = destination(0, Type::u32), a = source(1, type);
  Op& op = emit(now_->opcode + (shift ? ".shiftamt." : ".") +
                (now_->opcode == "bfind" ? signed_name(type) : bits_name(type)));
  op.d = d;
  op.a = a;
}

void Decoder::on_field() {
  const Type type = words_->type(0);
  const bool insert = now_->opcode == "bfi";
  if (!count_is(insert ? 5 : 4)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type);
  const std::uint32_t b = insert ? source(2, type) : source(2, Type::u32);
  const std::uint32_t c = source(3, Type::u32);
  const std::uint32_t e = insert ? source(4, Type::u32) : 0;
  Op& op = emit(now_->opcode + "." + (insert ? bits_name(type) : signed_name(type)));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
  op.e = e;
}

void Decoder::on_dot() {
  std::string name = now_->opcode;
  if (name == "dp2a") name += "." + words_->take_any({"lo", "hi"});
  if (!count_is(4)) return;
  const std::uint32_t d = destination(0, Type::b32), a = source(1, Type::b32);
  const std::uint32_t b = source(2, Type::b32), c = source(3, Type::b32);
  Op& op = emit(name + "." + signed_name(words_->type(0)) + "." + signed_name(words_->type(1)));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

// lop3 prmt fns sad bmsk
void Decoder::on_three() {
  const Type type = words_->type(0);
  std::string name = now_->opcode;
  const std::string mode =
      words_->take_any({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", "clamp", "wrap"});
  if (!mode.empty()) name += "." + mode;
  const std::size_t sources = name == "lop3" ? 4 : now_->opcode == "bmsk" ? 2 : 3;
  if (!count_is(sources + 1)) return;
  std::uint32_t in[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i < sources; ++i) in[i] = source(i + 1, type);
  const std::uint32_t d = destination(0, type);
  Op& op = emit(name + "." + (name == "sad" ? signed_name(type) : bits_name(type)));
  op.d = d;
  op.a = in[0];
  op.b = in[1];
  op.c = in[2];
  op.e = in[3];
}

void Decoder::on_copysign() {
  const Type type = words_->type(0);
  if (!count_is(3)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type), b = source(2, type);
  Op& op = emit("copysign." + to_string(type));
  op.d = d;
  op.a = a;
  op.b = b;
}

void Decoder::on_testp() {
  const Type type = words_->type(0);
  const std::string what =
      words_->take_any({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (!count_is(2)) return;
  const std::uint32_t d = destination(0, Type::pred), a = source(1, type);
  Op& op = emit("testp." + what + "." + to_string(type));
  op.d = d;
  op.a = op.b = a;
}

std::string Decoder::comparison() {
  return words_->take_any({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu",
                           "ltu", "leu", "gtu", "geu", "num", "nan"});
}

void Decoder::compare_into(std::uint32_t p, std::uint32_t q, const std::string& how, Type type) {
  static const std::map<std::string_view, std::string_view> kUnsigned = {
      {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
  const auto renamed = kUnsigned.find(how);
  const bool flush = words_->take("ftz");
  const std::string boolean = words_->take_any({"and", "or", "xor"});
  const std::size_t operands = boolean.empty() ? 3 : 4;
  if (!count_is(operands)) return;
  const std::uint32_t a = source(1, type), b = source(2, type);
  const bool negated = !boolean.empty() && operand(3).negated;
  Operand third = boolean.empty() ? Operand{} : operand(3);
  third.negated = false;
  const std::uint32_t c = boolean.empty() ? 0 : predicate(third);
  std::string name = "setp." + (renamed != kUnsigned.end() ? std::string(renamed->second) : how);
  if (is_float(type))
    name += (flush && type == Type::f32 ? ".ftz." : ".") + to_string(type);
  else
    name += "." + (renamed != kUnsigned.end() ? bits_name(type) : signed_name(type));
  Op& op = emit(name);
  op.d = p;
  op.e = q;
  op.a = a;
  op.b = b;
  op.c = c;
  const std::uint32_t kind = boolean.empty()    ? 0
                             : boolean == "and" ? kBoolAnd
                             : boolean == "or"  ? kBoolOr
                                                : kBoolXor;
  op.flags = kind | (negated ? kNegateC : 0) | (q != 0 ? kSecondResult : 0);
}

void Decoder::on_setp() {
  const std::string how = comparison();
  const Type type = words_->type(0);
  const Operand& to = operand(0);
  if (how.empty() || failed()) return refuse("has no comparison that is known");
  if (type == Type::f16x2 || type == Type::bf16x2) {  // one predicate per half
    if (to.kind != Operand::Kind::pair || to.elements.size() != 2 || !count_is(3))
      return refuse("has no pair of results");
    words_->take("ftz");
    const std::uint32_t a = source(1, Type::b32), b = source(2, Type::b32);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint32_t x = temporary(2), y = temporary(2);
      const std::string part = half == 0 ? "part.u32.0" : "part.u32.16";
      Op& first = emit(part);
      first.d = x;
      first.a = a;
      Op& second = emit(part);
      second.d = y;
      second.a = b;
      const std::uint32_t p = destination(to.elements[half], Type::pred);
      Op& op = emit("setp." + how + "." + (type == Type::f16x2 ? "f16" : "bf16"));
      op.d = p;
      op.a = x;
      op.b = y;
    }
    return;
  }
  const bool pair = to.kind == Operand::Kind::pair && to.elements.size() == 2;
  const std::uint32_t p = destination(pair ? to.elements[0] : to, Type::pred);
  const std::uint32_t q = pair ? destination(to.elements[1], Type::pred) : 0;
  compare_into(p, q, how, type);
}

void Decoder::on_set() {
  const std::string how = comparison();
  const Type to = words_->type(0), type = words_->type(1);
  if (how.empty()) return refuse("has no comparison that is known");
  const std::uint32_t p = temporary(0);
  compare_into(p, 0, how, type);
  if (failed() || is_half(to)) return refuse("has a type it cannot have");
  const std::uint32_t d = destination(0, to), bytes = register_bytes_of(to);
  const std::uint64_t yes = to == Type::f32 ? 0x3f80'0000u : ~std::uint64_t{0};
  const std::uint32_t a = constant(yes, bytes), b = constant(0, bytes);
  Op& op = emit("selp." + bits_name(to));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = p;
}

void Decoder::on_selp() {
  const Type type = words_->type(0);
  if (!count_is(4)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type), b = source(2, type);
  const std::uint32_t c = predicate(operand(3));
  Op& op = type == Type::pred ? emit(control::pred_select) : emit("selp." + bits_name(type));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

void Decoder::on_slct() {
  words_->take("ftz");
  const Type type = words_->type(0), by = words_->type(1);
  if (!count_is(4)) return;
  const std::uint32_t d = destination(0, type), a = source(1, type), b = source(2, type);
  const std::uint32_t c = source(3, by);
  Op& op = emit("slct." + bits_name(type) + "." + to_string(by));
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
}

void Decoder::mov_vector() {
  const bool packs = operand(1).kind == Operand::Kind::vector;
  const Operand& vector = operand(packs ? 1 : 0);
  const Type type = words_->type(0);
  const std::size_t count = vector.elements.size();
  const std::uint32_t bytes = register_bytes_of(type);
  if ((count != 2 && count != 4) || bytes / count < 2) return refuse("has a vector it cannot have");
  const Type part = bits_type(bytes / static_cast<std::uint32_t>(count));
  if (packs) {
    std::uint32_t in[4] = {0, 0, 0, 0};
    for (std::size_t i = 0; i < count; ++i) in[i] = source(vector.elements[i], part);
    const std::uint32_t d = destination(0, type);
    Op& op = emit(std::string(count == 4 ? "pack4." : "pack.") + bits_name(type));
    op.d = d;
    op.a = in[0];
    op.b = in[1];
    op.c = in[2];
    op.e = in[3];
    return;
  }
  std::uint32_t from = source(1, type);
  if (operand(1).kind == Operand::Kind::reg) {  // may be one of the destinations' registers
    const std::uint32_t kept = temporary(bytes);
    Op& op = emit("mov." + bits_name(type));
    op.d = kept;
    op.a = from;
    from = kept;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (vector.elements[i].kind == Operand::Kind::sink) continue;
    const std::uint32_t d = destination(vector.elements[i], part);
    Op& op = emit(std::string(count == 4 ? "part4." : "part.") + bits_name(type) + "." +
                  std::to_string(i * register_bytes_of(part) * 8));
    op.d = d;
    op.a = from;
  }
}

void Decoder::on_mov() {
  const Type type = words_->type(0);
  if (!count_is(2)) return;
  if (operand(0).kind == Operand::Kind::vector || operand(1).kind == Operand::Kind::vector)
    return mov_vector();
  const std::uint32_t d = destination(0, type), a = source(1, type);
  Op& op = type == Type::pred ? emit(control::pred_move) : emit("mov." + bits_name(type));
  op.d = d;
  op.a = a;
}

}  // namespace partita::ptx
