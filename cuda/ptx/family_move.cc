// Moves and conversions. cvt is a chain of steps, each an op; most conversions have one.
#include "ptx/families.h"

namespace partita::ptx::moves {
namespace {

void mov_vector(Site& at) {
  const bool packs = at.operand(1).kind == Operand::Kind::vector;
  const Operand& vector = at.operand(packs ? 1 : 0);
  const Type type = at.words.type(0);
  const std::size_t count = vector.elements.size();
  const std::uint32_t bytes = register_bytes_of(type);
  if ((count != 2 && count != 4) || bytes / count < 2)
    return at.refuse("has a vector it cannot have");
  const Type part = bits_type(bytes / static_cast<std::uint32_t>(count));
  const std::string four = count == 4 ? "4." : ".";
  if (packs) {
    std::uint32_t in[4] = {0, 0, 0, 0};
    for (std::size_t i = 0; i < count; ++i) in[i] = at.source(vector.elements[i], part);
    at.emit("pack" + four + bits_name(type), {at.destination(0, type), in[0], in[1], in[2], in[3]});
    return;
  }
  std::uint32_t from = at.source(1, type);
  if (at.operand(1).kind == Operand::Kind::reg) {  // may be one of the destinations' registers
    const std::uint32_t kept = at.registers.temporary(bytes);
    at.emit("mov." + bits_name(type), {.d = kept, .a = from});
    from = kept;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (vector.elements[i].kind == Operand::Kind::sink) continue;
    at.emit("part" + four + bits_name(type) + "." + std::to_string(i * register_bytes_of(part) * 8),
            {.d = at.destination(vector.elements[i], part), .a = from});
  }
}

void mov(Site& at) {
  const Type type = at.words.type(0);
  if (!at.count_is(2)) return;
  if (at.operand(0).kind == Operand::Kind::vector || at.operand(1).kind == Operand::Kind::vector)
    return mov_vector(at);
  const Slots slots = at.slots(type, {type});
  if (type == Type::pred)
    at.emit(control::pred_move, slots);
  else
    at.emit("mov." + bits_name(type), slots);
}

std::string unit_of(Type type) {  // b8 as u8
  const std::string name = to_string(type);
  return name.front() == 'b' && name[1] != 'f' ? "u" + name.substr(1) : name;
}
bool is_narrow_float(Type type) { return type == Type::f16 || type == Type::bf16; }

void cvt_pair(Site& at, Type to) {
  const std::string mode = at.words.take_any({"rn", "rz"});
  const bool relu = at.words.take("relu");
  at.words.take("ftz");
  if (!at.count_is(3) || at.words.type(1) != Type::f32)
    return at.refuse("has a type it cannot have");
  const Slots slots = at.slots(Type::b32, {Type::f32, Type::f32});
  at.emit("cvt." + mode + "." + to_string(to) + ".f32", slots);
  if (relu) at.emit("relu." + to_string(to), {.d = slots.d, .a = slots.d});
}

struct Step {
  std::string name = {};
  std::uint32_t bytes = 0;
  std::string rounding = {};
};

std::vector<Step> cvt_steps(Modifiers& words, Type to, Type from) {
  const std::string whole = words.take_any({"rni", "rzi", "rmi", "rpi"});
  std::string mode = words.take_any({"rna", "rn", "rz", "rm", "rp"});
  const bool flush = words.take("ftz"), saturate = words.take("sat");
  const bool relu = words.take("relu");
  if (!is_float(from) && !is_float(to) && to != Type::tf32) {
    const std::string name = saturate ? "cvt.sat." : "cvt.";
    return {{name + unit_of(to) + "." + unit_of(from), register_bytes_of(to), {}}};
  }
  std::vector<Step> steps;
  Type at = from;
  const auto step = [&](const std::string& name, Type type, const std::string& rounding) {
    steps.push_back({name, register_bytes_of(type), rounding});
    at = type;
  };
  if (is_narrow_float(from)) step("cvt.f32." + to_string(from), Type::f32, {});
  if (flush && at == Type::f32) step("flush.f32", at, {});
  if (!is_float(from)) {
    at = to == Type::f64 || to == Type::bf16 ? Type::f64 : Type::f32;
    step("cvt." + to_string(at) + "." + unit_of(from), at, is_narrow_float(to) ? "" : mode);
  }
  if (!whole.empty() && !(whole == "rzi" && !is_float(to)))
    step("round." + whole + "." + to_string(at), at, {});
  if (!is_float(to) && to != Type::tf32) {
    step("cvt." + unit_of(to) + "." + to_string(at), to, {});
    return steps;
  }
  if (at != to && (to == Type::f32 || to == Type::f64))
    step("cvt." + to_string(to) + "." + to_string(at), to, mode);
  if (flush && at == Type::f32 && at == to) step("flush.f32", at, {});
  if (saturate) step("saturate." + to_string(at), at, {});
  if (at != to)
    step("cvt." + (mode.empty() ? "rn" : mode) + "." + to_string(to) + "." + to_string(at), to, {});
  if (relu && is_narrow_float(to)) step("relu." + to_string(to), to, {});
  return steps;
}

void cvt_chain(Site& at, std::uint32_t from, const Site::Target& to,
               const std::vector<Step>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool last = i + 1 == steps.size();
    const std::uint32_t d = last ? to.slot : at.registers.temporary(steps[i].bytes);
    emit_rounding(at, steps[i].rounding);
    at.emit(steps[i].name, {.d = d, .a = from});
    from = d;
  }
  if (steps.empty()) at.emit("mov.u" + std::to_string(8 * to.from), {.d = to.slot, .a = from});
}

void cvt(Site& at) {
  const Type to = at.words.type(0), from = at.words.type(1);
  if (to == Type::f16x2 || to == Type::bf16x2) return cvt_pair(at, to);
  if (!at.count_is(2) || to == Type::none || from == Type::none || to == Type::pred)
    return at.refuse("has a type it cannot have");
  const std::uint32_t a = at.loose_source(at.operand(1), from);
  const Site::Target target = at.loose_destination(at.operand(0), to);
  if (!at.failed()) cvt_chain(at, a, target, cvt_steps(at.words, to, from));
  if (!at.failed()) at.settle(target);
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {{"mov", mov}, {"cvt", cvt}};
  return kOpcodes;
}

}  // namespace partita::ptx::moves
