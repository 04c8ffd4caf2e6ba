#include "ptx/site.h"

#include <bit>

#include "ptx/control.h"

namespace partita::ptx {
namespace {

struct SpecialName {
  std::string_view name;
  Fill fill;
};
constexpr SpecialName kSpecialNames[] = {{"cluster_ctarank", Fill::zero},
                                         {"cluster_nctarank", Fill::one},
                                         {"laneid", Fill::lane_id},
                                         {"lanemask_eq", Fill::lane_mask_eq},
                                         {"lanemask_lt", Fill::lane_mask_lt},
                                         {"lanemask_le", Fill::lane_mask_le},
                                         {"lanemask_gt", Fill::lane_mask_gt},
                                         {"lanemask_ge", Fill::lane_mask_ge},
                                         {"warpid", Fill::warp_id},
                                         {"nwarpid", Fill::nwarp_id},
                                         {"smid", Fill::sm_id},
                                         {"nsmid", Fill::nsm_id},
                                         {"gridid", Fill::grid_id},
                                         {"envreg1", Fill::workspace_high},
                                         {"envreg2", Fill::workspace_low},
                                         {"total_smem_size", Fill::total_shared},
                                         {"aggr_smem_size", Fill::total_shared},
                                         {"dynamic_smem_size", Fill::dynamic_shared}};
// With .x, .y and .z, which are neighbours; a cluster is one block.
constexpr SpecialName kSpecialVectors[] = {
    {"tid", Fill::tid_x},          {"ntid", Fill::ntid_x},       {"ctaid", Fill::ctaid_x},
    {"nctaid", Fill::nctaid_x},    {"clusterid", Fill::ctaid_x}, {"nclusterid", Fill::nctaid_x},
    {"cluster_ctaid", Fill::zero}, {"cluster_nctaid", Fill::one}};

std::optional<Fill> special_named(std::string_view name) {
  for (const SpecialName& known : kSpecialNames)
    if (known.name == name) return known.fill;
  if (name.size() < 2 || name[name.size() - 2] != '.') return std::nullopt;
  const int axis = name.back() - 'x';
  for (const SpecialName& known : kSpecialVectors) {
    if (known.name != name.substr(0, name.size() - 2) || axis < 0 || axis > 2) continue;
    const bool same = known.fill == Fill::zero || known.fill == Fill::one;
    return static_cast<Fill>(static_cast<int>(known.fill) + (same ? 0 : axis));
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t literal(const Operand& operand, Type type) {
  using Kind = Operand::Kind;
  const auto bits32 = std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits));
  const auto whole = static_cast<std::int64_t>(operand.bits);
  if (type == Type::f64) {
    if (operand.kind == Kind::f32) return std::bit_cast<std::uint64_t>(double{bits32});
    if (operand.kind == Kind::integer)
      return std::bit_cast<std::uint64_t>(static_cast<double>(whole));
    return operand.bits;
  }
  if (type == Type::f32 || (operand.kind == Kind::f64 && register_bytes_of(type) == 4)) {
    if (operand.kind == Kind::f64)
      return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
    if (operand.kind == Kind::integer)
      return std::bit_cast<std::uint32_t>(static_cast<float>(whole));
  }
  return operand.bits;
}

Site::Site(Program& to, RegisterFile& of, FunctionFrames& functions, FirstRefusal& refusal)
    : program(to), registers(of), frames(functions), refusal_(refusal), ops_(op_names()) {}

void Site::begin(FunctionFrame& of, const Instruction& instruction, std::uint32_t number) {
  frame = &of;
  now = refusal_.now = &instruction;
  words = Modifiers(instruction.modifiers);
  ordinal = number;
  registers.free_temporaries();
}

const Operand& Site::operand(std::size_t i) {
  static const Operand none;
  if (i < now->operands.size()) return now->operands[i];
  refuse("operand " + std::to_string(i + 1) + " is missing");
  return none;
}

bool Site::count_is(std::size_t count) {
  if (now->operands.size() != count)
    refuse("has " + std::to_string(now->operands.size()) + " operands; " + std::to_string(count) +
           " are expected");
  return !failed();
}

std::uint32_t Site::register_bytes(const Operand& operand) {
  if (operand.kind != Operand::Kind::reg) return 0;
  const auto& declared = frame->function->registers;
  if (operand.reg < 0 || static_cast<std::size_t>(operand.reg) >= declared.size()) {
    refuse("names a register that is not declared");
    return 0;
  }
  return register_bytes_of(declared[static_cast<std::size_t>(operand.reg)].type);
}

std::uint32_t Site::register_slot(const Operand& operand) {
  return failed() ? 0 : frame->slots[static_cast<std::size_t>(operand.reg)];
}

std::uint32_t Site::guard_slot() {
  const auto& declared = frame->function->registers;
  const auto reg = static_cast<std::size_t>(now->guard->reg);  // -1 is beyond them
  if (reg < declared.size() && declared[reg].type == Type::pred) return frame->slots[reg];
  refuse("has a guard that is no predicate");
  return 0;
}

std::uint32_t Site::special(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type);
  const std::string_view name = operand.text;
  if (const auto known = special_named(name))
    return resized(registers.fill(*known), 4, want, false);
  if (name == "is_explicit_cluster" || name.starts_with("envreg") || name.starts_with("pm") ||
      name == "current_graph_exec" || name.starts_with("reserved_smem"))
    return registers.constant(0, want);
  const bool timer = name.starts_with("globaltimer");
  if (!timer && !name.starts_with("clock")) {
    refuse("special register %" + operand.text + " is not supported");
    return 0;
  }
  const std::uint32_t slot = registers.temporary(8);
  emit(timer ? control::global_timer : control::clock64, {.d = slot});
  if (name == "clock64" || name == "globaltimer") return resized(slot, 8, want, false);
  const std::uint32_t half = registers.temporary(4);
  emit(name.ends_with("_hi") ? "part.u64.32" : "part.u64.0", {.d = half, .a = slot});
  return resized(half, 4, want, false);
}

std::uint32_t Site::resized(std::uint32_t slot, std::uint32_t from, std::uint32_t to,
                            bool is_signed) {
  if (from == to || from == 0 || to == 0) return slot;
  const std::uint32_t result = registers.temporary(to);
  emit_resize(result, slot, to, from, is_signed);
  return result;
}

void Site::emit_resize(std::uint32_t to_slot, std::uint32_t from_slot, std::uint32_t to,
                       std::uint32_t from, bool is_signed) {
  const std::string sign = is_signed ? "s" : "u";
  emit("cvt." + sign + std::to_string(8 * to) + "." + sign + std::to_string(8 * from),
       {.d = to_slot, .a = from_slot});
}

std::uint32_t Site::source(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type);
  switch (operand.kind) {
    case Operand::Kind::reg: {
      const std::uint32_t have = register_bytes(operand);
      if (failed()) return 0;
      if (type == Type::pred) return predicate(operand);
      if (have == want) return register_slot(operand);
      refuse("register " + frame->function->registers[static_cast<std::size_t>(operand.reg)].name +
             " does not have the size of " + to_string(type));
      return 0;
    }
    case Operand::Kind::special:
      return special(operand, type);
    case Operand::Kind::integer:
    case Operand::Kind::f32:
    case Operand::Kind::f64:
      return registers.constant(literal(operand, type), want);
    case Operand::Kind::symbol: {
      if (operand.text == "WARP_SZ") return registers.constant(kLanes, want);
      const auto found = frames.symbol(*frame, operand.text);
      if (found && frame->callee.is_recursive && found->what == Symbol::What::local) {
        refuse("takes the address of a parameter in a function that calls itself");
        return 0;
      }
      if (found && found->what == Symbol::What::framed) {
        const std::uint32_t sum = registers.temporary(8);
        emit("add.u64",
             {sum, frame->callee.frame_slot,
              registers.constant(found->value + static_cast<std::uint64_t>(operand.offset), 8)});
        return resized(sum, 8, want, false);
      }
      if (found)
        return registers.constant(found->value + static_cast<std::uint64_t>(operand.offset), want);
      refuse("'" + operand.text + "' is not known");
      return 0;
    }
    default:
      break;
  }
  refuse("has an operand of a kind it cannot take");
  return 0;
}

std::uint32_t Site::loose_source(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type), have = register_bytes(operand);
  if (failed() || operand.kind != Operand::Kind::reg || have == want) return source(operand, type);
  if (have < want) {
    refuse("has a source register smaller than " + to_string(type));
    return 0;
  }
  return resized(register_slot(operand), have, want, false);
}

std::uint32_t Site::predicate(const Operand& operand) {
  if (operand.kind == Operand::Kind::integer) return registers.constant(operand.bits, 0);
  if (operand.kind != Operand::Kind::reg || register_bytes(operand) != 0) {
    refuse("expects a predicate");
    return 0;
  }
  const std::uint32_t slot = register_slot(operand);
  if (!operand.negated) return slot;
  const std::uint32_t turned = registers.temporary(0);
  emit(control::pred_not, {.d = turned, .a = slot});
  return turned;
}

std::uint32_t Site::destination(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type);
  if (operand.kind == Operand::Kind::sink) return registers.temporary(want);
  const bool is_register = operand.kind == Operand::Kind::reg;
  if (!is_register && type != Type::pred) refuse("has no register to write to");
  const bool fits = is_register && register_bytes(operand) == want;
  if (failed()) return 0;
  const Register* const to =
      is_register ? &frame->function->registers[static_cast<std::size_t>(operand.reg)] : nullptr;
  if (type == Type::pred && (!fits || to->type != Type::pred))
    refuse("expects a predicate to write to");
  else if (!fits)
    refuse("register " + to->name + " does not have the size of " + to_string(type));
  return register_slot(operand);
}

Site::Target Site::loose_destination(const Operand& operand, Type type) {
  Target target;
  target.from = target.to = register_bytes_of(type);
  target.is_signed = is_signed(type);
  if (operand.kind == Operand::Kind::reg) target.to = register_bytes(operand);
  if (target.to == target.from || failed()) {
    target.slot = target.final_slot = destination(operand, type);
    return target;
  }
  if (target.to < target.from) refuse("has a destination smaller than " + to_string(type));
  target.slot = registers.temporary(target.from);
  target.final_slot = register_slot(operand);
  return target;
}

void Site::settle(const Target& target) {
  if (target.slot != target.final_slot)
    emit_resize(target.final_slot, target.slot, target.to, target.from, target.is_signed);
}

Slots Site::slots(Type to, std::initializer_list<Type> from) {
  Slots made;
  if (!count_is(from.size() + 1)) return made;
  made.d = destination(0, to);
  std::uint32_t* const sources[] = {&made.a, &made.b, &made.c, &made.e};
  std::size_t i = 0;
  for (const Type type : from) {
    *sources[i] = source(i + 1, type);
    ++i;
  }
  return made;
}

Op& Site::emit(OpFn fn, const Slots& slots, std::uint32_t flags) {
  program.code.push_back({.fn = fn,
                          .d = slots.d,
                          .a = slots.a,
                          .b = slots.b,
                          .c = slots.c,
                          .e = slots.e,
                          .ordinal = ordinal,
                          .flags = flags});
  return program.code.back();
}

Op& Site::emit(const std::string& name, const Slots& slots, std::uint32_t flags) {
  const OpFn fn = ops_.find(name);
  if (fn == nullptr) refuse("is not supported");
  return emit(fn, slots, flags);
}

void Site::emit_plain(const std::string& name, Type to, std::initializer_list<Type> from) {
  const Slots all = slots(to, from);
  emit(name, all);
}

}  // namespace partita::ptx
