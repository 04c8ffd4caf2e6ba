// Arithmetic of floats and halves.
#include "ptx/families.h"

namespace partita::ptx::floats {
namespace {

void whole_float_op(Site& at, std::string name, std::size_t sources, Type type) {
  Modifiers& words = at.words;
  const std::string mode = words.take_any({"rn", "rz", "rm", "rp", "approx", "full"});
  const bool flush = words.take("ftz");
  if (words.take("NaN")) name += ".NaN";
  if (words.take("xorsign")) {
    words.take("abs");
    name += ".xorsign.abs";
  }
  const bool saturate = words.take("sat");
  if (flush && type == Type::f32) name += ".ftz";
  if (saturate && type == Type::f32) name += ".sat";
  if (!at.count_is(sources + 1)) return;
  Slots slots{.d = at.destination(0, type), .a = at.source(1, type)};
  if (sources > 1) slots.b = at.source(2, type);
  if (sources > 2) slots.c = at.source(3, type);
  emit_rounding(at, mode);
  at.emit(name + "." + to_string(type), slots);
}

void half_op(Site& at, std::string name, std::size_t sources, Type type) {
  Modifiers& words = at.words;
  words.take("rn");
  words.take("approx");
  const bool flush = words.take("ftz");
  if (words.take("NaN")) name += ".NaN";
  const bool saturate = words.take("sat"), relu = words.take("relu");
  if (!at.count_is(sources + 1)) return;
  const std::string suffix = "." + to_string(type);
  std::uint32_t in[3] = {0, 0, 0};
  for (std::size_t i = 0; i < sources; ++i) {
    in[i] = at.source(i + 1, type);
    if (!flush) continue;
    const std::uint32_t flushed = at.registers.temporary(register_bytes_of(type));
    at.emit("flush" + suffix, {.d = flushed, .a = in[i]});
    in[i] = flushed;
  }
  const std::uint32_t d = at.destination(0, type);
  at.emit(name + suffix, {d, in[0], in[1], in[2]});
  for (const std::string_view after :
       {saturate ? "saturate" : "", relu ? "relu" : "", flush ? "flush" : ""})
    if (!after.empty()) at.emit(std::string(after) + suffix, {.d = d, .a = d});
}

void fma(Site& at) { float_op(at, "fma", 3); }
void function(Site& at) { float_op(at, at.now->opcode, 1); }

void copysign(Site& at) {
  const Type type = at.words.type(0);
  at.emit_plain("copysign." + to_string(type), type, {type, type});
}

void testp(Site& at) {
  const Type type = at.words.type(0);
  const std::string what =
      at.words.take_any({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  Slots slots = at.slots(Type::pred, {type});
  slots.b = slots.a;
  at.emit("testp." + what + "." + to_string(type), slots);
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {
      {"fma", fma},       {"sqrt", function},     {"rcp", function}, {"rsqrt", function},
      {"sin", function},  {"cos", function},      {"ex2", function}, {"lg2", function},
      {"tanh", function}, {"copysign", copysign}, {"testp", testp}};
  return kOpcodes;
}

}  // namespace partita::ptx::floats

namespace partita::ptx {

void emit_rounding(Site& at, const std::string& mode) {
  if (mode == "rz" || mode == "rm" || mode == "rp")
    at.emit(control::rounding, {}, mode == "rz" ? 1 : mode == "rm" ? 2 : 3);
}

void float_op(Site& at, const std::string& base, std::size_t sources) {
  const Type type = at.words.type(0);
  if (is_half(type)) return floats::half_op(at, base, sources, type);
  floats::whole_float_op(at, base, sources, type);
}

}  // namespace partita::ptx
