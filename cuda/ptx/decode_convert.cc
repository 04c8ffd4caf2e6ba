// cvt: a chain of steps, each an op; most conversions have one.
#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

std::string unit_of(Type type) {  // b8 as u8
  const std::string name = to_string(type);
  return name.front() == 'b' && name[1] != 'f' ? "u" + name.substr(1) : name;
}
bool is_narrow_float(Type type) { return type == Type::f16 || type == Type::bf16; }

}  // namespace

void Decoder::cvt_pair(Type to) {
  const std::string mode = words_->take_any({"rn", "rz"});
  const bool relu = words_->take("relu");
  words_->take("ftz");
  if (!count_is(3) || words_->type(1) != Type::f32) return refuse("has a type it cannot have");
  const std::uint32_t d = destination(0, Type::b32);
  const std::uint32_t a = source(1, Type::f32), b = source(2, Type::f32);
  Op& op = emit("cvt." + mode + "." + to_string(to) + ".f32");
  op.d = d;
  op.a = a;
  op.b = b;
  if (!relu) return;
  Op& more = emit("relu." + to_string(to));
  more.d = more.a = d;
}

std::vector<Decoder::Step> Decoder::cvt_steps(Type to, Type from) {
  std::vector<Step> steps;
  const std::string whole = words_->take_any({"rni", "rzi", "rmi", "rpi"});
  std::string mode = words_->take_any({"rna", "rn", "rz", "rm", "rp"});
  const bool flush = words_->take("ftz"), saturate = words_->take("sat");
  const bool relu = words_->take("relu");
  if (!is_float(from) && !is_float(to) && to != Type::tf32) {
    steps.push_back({(saturate ? "cvt.sat." : "cvt.") + unit_of(to) + "." + unit_of(from),
                     register_bytes_of(to),
                     {}});
    return steps;
  }
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

void Decoder::cvt_chain(std::uint32_t from, const Target& to, const std::vector<Step>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::uint32_t d = i + 1 == steps.size() ? to.slot : temporary(steps[i].bytes);
    round(steps[i].rounding);
    Op& op = emit(steps[i].name);
    op.d = d;
    op.a = from;
    from = d;
  }
  if (!steps.empty()) return;
  Op& op = emit("mov.u" + std::to_string(8 * to.from));
  op.d = to.slot;
  op.a = from;
}

void Decoder::on_cvt() {
  const Type to = words_->type(0), from = words_->type(1);
  if (to == Type::f16x2 || to == Type::bf16x2) return cvt_pair(to);
  if (!count_is(2) || to == Type::none || from == Type::none || to == Type::pred)
    return refuse("has a type it cannot have");
  const std::uint32_t a = loose_source(operand(1), from);
  const Target target = loose_destination(operand(0), to);
  if (!failed()) cvt_chain(a, target, cvt_steps(to, from));
  if (!failed()) settle(target);
}

}  // namespace partita::ptx
