// Operands of instructions: registers, immediates, symbols and special registers become slots.
#include <bit>
#include <cstring>

#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

struct SpecialName {
  std::string_view name;
  Fill fill;
};
constexpr SpecialName kSpecialNames[] = {
    {"tid.x", Fill::tid_x},
    {"tid.y", Fill::tid_y},
    {"tid.z", Fill::tid_z},
    {"ntid.x", Fill::ntid_x},
    {"ntid.y", Fill::ntid_y},
    {"ntid.z", Fill::ntid_z},
    {"ctaid.x", Fill::ctaid_x},
    {"ctaid.y", Fill::ctaid_y},
    {"ctaid.z", Fill::ctaid_z},
    {"nctaid.x", Fill::nctaid_x},
    {"nctaid.y", Fill::nctaid_y},
    {"nctaid.z", Fill::nctaid_z},
    {"clusterid.x", Fill::ctaid_x},
    {"clusterid.y", Fill::ctaid_y},
    {"clusterid.z", Fill::ctaid_z},
    {"nclusterid.x", Fill::nctaid_x},
    {"nclusterid.y", Fill::nctaid_y},
    {"nclusterid.z", Fill::nctaid_z},
    {"cluster_ctaid.x", Fill::zero},
    {"cluster_ctaid.y", Fill::zero},
    {"cluster_ctaid.z", Fill::zero},
    {"cluster_nctaid.x", Fill::one},
    {"cluster_nctaid.y", Fill::one},
    {"cluster_nctaid.z", Fill::one},
    {"cluster_ctarank", Fill::zero},
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
    {"dynamic_smem_size", Fill::dynamic_shared},
};

}  // namespace

const Operand& Decoder::operand(std::size_t i) {
  static const Operand none;
  if (i < now_->operands.size()) return now_->operands[i];
  refuse("operand " + std::to_string(i + 1) + " is missing");
  return none;
}

bool Decoder::count_is(std::size_t count) {
  if (now_->operands.size() != count)
    refuse("has " + std::to_string(now_->operands.size()) + " operands; " + std::to_string(count) +
           " are expected");
  return !failed();
}

std::uint32_t Decoder::constant(std::uint64_t bits, std::uint32_t bytes) {
  if (bytes == 0) bits = bits != 0 ? kAllLanes : 0;
  if (bytes > 0 && bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  const auto [at, is_new] = constants_.try_emplace({bytes, bits}, 0);
  if (!is_new) return at->second;
  std::vector<std::byte>& all = program_.constants;
  const std::size_t begin = all.size();
  const std::uint32_t lanes = bytes == 0 ? 16 : kLanes, each = bytes == 0 ? 4 : bytes;
  all.resize((begin + lanes * each + 63) / 64 * 64);
  for (std::uint32_t i = 0; i < lanes; ++i) std::memcpy(&all[begin + i * each], &bits, each);
  return at->second = kConstantSlot | static_cast<std::uint32_t>(begin);
}

std::uint32_t Decoder::fill(Fill what) {
  const auto [at, is_new] = fills_.try_emplace(what, 0);
  if (!is_new) return at->second;
  at->second = kConstantSlot | static_cast<std::uint32_t>(program_.constants.size());
  program_.constants.resize(program_.constants.size() + 4 * kLanes);
  program_.fills.push_back({what, at->second});
  return at->second;
}

std::uint32_t Decoder::temporary(std::uint32_t bytes) {
  const std::size_t kind = bytes == 0 ? 0 : static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  auto& slots = temporaries_[kind];
  if (used_temporaries_[kind] == slots.size()) slots.push_back(new_slot(bytes));
  return slots[used_temporaries_[kind]++];
}

std::uint64_t Decoder::literal(const Operand& operand, Type type) {
  const bool integer = operand.kind == Operand::Kind::integer;
  if (type == Type::f64) {
    if (operand.kind == Operand::Kind::f32)
      return std::bit_cast<std::uint64_t>(
          static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits))));
    if (integer)
      return std::bit_cast<std::uint64_t>(
          static_cast<double>(static_cast<std::int64_t>(operand.bits)));
    return operand.bits;
  }
  if (type == Type::f32 || (operand.kind == Operand::Kind::f64 && register_bytes_of(type) == 4)) {
    if (operand.kind == Operand::Kind::f64)
      return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
    if (integer)
      return std::bit_cast<std::uint32_t>(
          static_cast<float>(static_cast<std::int64_t>(operand.bits)));
  }
  return operand.bits;
}

std::uint32_t Decoder::register_bytes(const Operand& operand) {
  if (operand.kind != Operand::Kind::reg) return 0;
  const auto& registers = frame_->function->registers;
  if (operand.reg < 0 || static_cast<std::size_t>(operand.reg) >= registers.size()) {
    refuse("names a register that is not declared");
    return 0;
  }
  return register_bytes_of(registers[static_cast<std::size_t>(operand.reg)].type);
}

std::uint32_t Decoder::special(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type);
  for (const SpecialName& known : kSpecialNames)
    if (known.name == operand.text) return resized(fill(known.fill), 4, want, false);
  if (operand.text == "is_explicit_cluster") return constant(0, want);
  if (operand.text.starts_with("envreg") || operand.text.starts_with("pm") ||
      operand.text == "current_graph_exec" || operand.text.starts_with("reserved_smem"))
    return constant(0, want);
  if (operand.text.starts_with("clock") || operand.text.starts_with("globaltimer")) {
    const bool timer = operand.text.starts_with("globaltimer");
    const bool high = operand.text.ends_with("_hi");
    const bool wide = operand.text == "clock64" || operand.text == "globaltimer";
    const std::uint32_t slot = temporary(8);
    emit(timer ? control::global_timer : control::clock64).d = slot;
    if (wide) return resized(slot, 8, want, false);
    const std::uint32_t half = temporary(4);
    Op& op = emit(high ? std::string("part.u64.32") : std::string("part.u64.0"));
    op.d = half;
    op.a = slot;
    return resized(half, 4, want, false);
  }
  refuse("special register %" + operand.text + " is not supported");
  return 0;
}

std::uint32_t Decoder::resized(std::uint32_t slot, std::uint32_t from, std::uint32_t to,
                               bool is_signed) {
  if (from == to || from == 0 || to == 0) return slot;
  const std::uint32_t result = temporary(to);
  emit_resize(result, slot, to, from, is_signed);
  return result;
}

void Decoder::emit_resize(std::uint32_t to_slot, std::uint32_t from_slot, std::uint32_t to,
                          std::uint32_t from, bool is_signed) {
  const auto bits = [](std::uint32_t bytes) { return std::to_string(8 * bytes); };
  const std::string sign = is_signed ? "s" : "u";
  Op& op = emit("cvt." + sign + bits(to) + "." + sign + bits(from));
  op.d = to_slot;
  op.a = from_slot;
}

std::optional<Decoder::Symbol> Decoder::symbol(const std::string& name) {
  if (const auto at = frame_->symbols.find(name); at != frame_->symbols.end()) return at->second;
  if (const auto at = shared_.find(name); at != shared_.end()) return at->second;
  if (const auto at = addresses_.find(name); at != addresses_.end())
    return Symbol{Symbol::What::global, at->second, 0};
  for (std::size_t i = 0; i < module_.functions.size(); ++i)
    if (module_.functions[i].name == name)
      return Symbol{Symbol::What::function, function_address(i), 0};
  return std::nullopt;
}

std::uint32_t Decoder::source(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type);
  switch (operand.kind) {
    case Operand::Kind::reg: {
      const std::uint32_t have = register_bytes(operand);
      if (failed()) return 0;
      const std::uint32_t slot = frame_->slots[static_cast<std::size_t>(operand.reg)];
      if (type == Type::pred) return predicate(operand);
      if (have != want) {
        refuse("register " +
               frame_->function->registers[static_cast<std::size_t>(operand.reg)].name +
               " does not have the size of " + to_string(type));
        return 0;
      }
      return slot;
    }
    case Operand::Kind::special:
      return special(operand, type);
    case Operand::Kind::integer:
    case Operand::Kind::f32:
    case Operand::Kind::f64:
      return constant(literal(operand, type), want);
    case Operand::Kind::symbol: {
      if (operand.text == "WARP_SZ") return constant(kLanes, want);
      const auto found = symbol(operand.text);
      if (!found) {
        refuse("'" + operand.text + "' is not known");
        return 0;
      }
      return constant(found->value + static_cast<std::uint64_t>(operand.offset), want);
    }
    default:
      break;
  }
  refuse("has an operand of a kind it cannot take");
  return 0;
}
std::uint32_t Decoder::source(std::size_t i, Type type) { return source(operand(i), type); }

std::uint32_t Decoder::loose_source(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type), have = register_bytes(operand);
  if (failed() || operand.kind != Operand::Kind::reg || have == want) return source(operand, type);
  const std::uint32_t slot = frame_->slots[static_cast<std::size_t>(operand.reg)];
  if (have < want) {
    refuse("has a source register smaller than " + to_string(type));
    return 0;
  }
  return resized(slot, have, want, false);
}

std::uint32_t Decoder::predicate(const Operand& operand) {
  if (operand.kind == Operand::Kind::integer) return constant(operand.bits, 0);
  if (operand.kind != Operand::Kind::reg || register_bytes(operand) != 0) {
    if (!failed()) refuse("expects a predicate");
    return 0;
  }
  const std::uint32_t slot = frame_->slots[static_cast<std::size_t>(operand.reg)];
  if (!operand.negated) return slot;
  const std::uint32_t turned = temporary(0);
  Op& op = emit(control::pred_not);
  op.d = turned;
  op.a = slot;
  return turned;
}

std::uint32_t Decoder::destination(const Operand& operand, Type type) {
  const std::uint32_t want = register_bytes_of(type);
  if (operand.kind == Operand::Kind::sink) return temporary(want);
  if (operand.kind != Operand::Kind::reg) {
    refuse("has no register to write to");
    return 0;
  }
  if (type == Type::pred) return destination_predicate(operand);
  if (register_bytes(operand) != want && !failed())
    refuse("register " + frame_->function->registers[static_cast<std::size_t>(operand.reg)].name +
           " does not have the size of " + to_string(type));
  return failed() ? 0 : frame_->slots[static_cast<std::size_t>(operand.reg)];
}
std::uint32_t Decoder::destination(std::size_t i, Type type) {
  return destination(operand(i), type);
}

std::uint32_t Decoder::destination_predicate(const Operand& operand) {
  if (operand.kind == Operand::Kind::sink) return temporary(0);
  if (operand.kind != Operand::Kind::reg || register_bytes(operand) != 0 ||
      frame_->function->registers[static_cast<std::size_t>(operand.reg)].type != Type::pred) {
    if (!failed()) refuse("expects a predicate to write to");
    return 0;
  }
  return frame_->slots[static_cast<std::size_t>(operand.reg)];
}

Decoder::Target Decoder::loose_destination(const Operand& operand, Type type) {
  Target target;
  target.from = register_bytes_of(type);
  target.to = target.from;
  target.is_signed = is_signed(type);
  if (operand.kind == Operand::Kind::reg) target.to = register_bytes(operand);
  if (target.to == target.from || failed()) {
    target.slot = target.final_slot = destination(operand, type);
    return target;
  }
  if (target.to < target.from) refuse("has a destination smaller than " + to_string(type));
  target.slot = temporary(target.from);
  target.final_slot = frame_->slots[static_cast<std::size_t>(operand.reg)];
  return target;
}

void Decoder::settle(const Target& target) {
  if (target.slot != target.final_slot)
    emit_resize(target.final_slot, target.slot, target.to, target.from, target.is_signed);
}

}  // namespace partita::ptx
