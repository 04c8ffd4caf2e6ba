// Loads, stores and asynchronous copies; what is known of addresses.
#include "ptx/families.h"

namespace partita::ptx::accesses {
namespace {

std::uint64_t window_of(Space space) {
  return space == Space::shared  ? kSharedWindow
         : space == Space::local ? kLocalWindow
         : space == Space::param ? kParameterWindow
                                 : 0;
}
std::string memory_type(Type type, bool is_load, std::uint32_t to) {
  const bool extends = is_load && is_signed(type) && size_of(type) < to;
  return (extends ? "s" : "u") + std::to_string(8 * size_of(type));
}

void finish_access(Site& at, Op& op, const Address& where, std::uint32_t size, bool strong) {
  op.a = where.slot;
  op.imm = where.offset;
  op.size = size;
  if (size < 4 && (where.space == Space::shared || where.is_generic))
    at.program.accesses_bytes = true;
  if (size < 4 && where.space != Space::shared) at.program.accesses_global_bytes = true;
  op.span = at.program.spans++;
  if (where.space == Space::shared) {
    at.program.arrays.resize(at.program.spans);
    at.program.arrays.back() = where.array;
  }
  const bool is_static =
      where.is_static && where.offset >= 0 && where.offset % size == 0 &&
      static_cast<std::uint64_t>(where.offset) + size <= at.registers.local_bytes();
  op.flags = (strong ? kStrong : 0) | (where.is_generic ? kGeneric : 0);
  if (where.space != Space::global)
    op.flags |= (where.is_wide ? kWideAddressFlag : 0) | (is_static ? kStaticFlag : 0);
}

void load_parameter(Site& at, std::int64_t offset, const Operand& to, Type type) {
  const Site::Target target = at.loose_destination(to, type);
  if (at.failed()) return;
  at.emit("mov.u" + std::to_string(8 * target.from),
          {target.slot, at.registers.parameter(static_cast<std::uint32_t>(offset), type)});
  at.settle(target);
}

std::string op_name(bool is_load, const Address& where, Type type, std::uint32_t wide,
                    std::size_t count) {
  const std::string space = where.space == Space::shared  ? "shared."
                            : where.space == Space::local ? "local."
                                                          : "global.";
  return (is_load ? "ld." : "st.") + space + memory_type(type, is_load, wide) + "." +
         std::to_string(8 * wide) + "." + std::to_string(count);
}

// A value to load or store, of the width that the access has.
std::uint32_t value_slot(Site& at, bool is_load, Operand value, Type type, Type as) {
  using Kind = Operand::Kind;
  if (is_load) return at.destination(value, as);
  if (value.kind != Kind::reg && value.kind != Kind::sink) {
    value.bits = literal(value, type);
    if (value.kind != Kind::special && value.kind != Kind::symbol) value.kind = Kind::integer;
  }
  return at.source(value, as);
}

void access(Site& at) {
  const bool is_load = at.now->opcode != "st";
  const std::string order = at.words.take_any({"volatile", "relaxed", "acquire", "release"});
  at.words.take("weak");
  const auto [space, generic] = take_space(at);
  take_memory_words(at);
  const std::string vector = at.words.take_any({"v2", "v4"});
  const Type type = at.words.type(0);
  if (at.now->operands.size() < 2 || type == Type::none || size_of(type) > 8)
    return at.refuse("has a type it cannot have");
  Address where = address(at, at.operand(is_load ? 1 : 0), space);
  if (at.failed()) return;
  if (where.space == Space::global && !where.is_parameter && !where.is_generic)
    where.is_generic = generic;
  const Operand& value = at.operand(is_load ? 0 : 1);
  std::vector<Operand> values = {value};
  if (value.kind == Operand::Kind::vector) values = value.elements;
  const std::size_t count = vector.empty() ? 1 : vector == "v2" ? 2 : 4;
  if (values.size() != count) return at.refuse("has a vector of another length");
  const auto size = static_cast<std::uint32_t>(size_of(type));
  if (where.is_parameter) {
    if (!is_load) return at.refuse("stores into a parameter of the kernel");
    for (std::size_t i = 0; i < count; ++i)
      load_parameter(at, where.offset + std::int64_t{size} * static_cast<std::int64_t>(i),
                     values[i], type);
    return;
  }
  std::uint32_t wide = register_bytes_of(type);
  for (const Operand& one : values)
    if (one.kind == Operand::Kind::reg) wide = at.register_bytes(one);
  const Type as = bits_type(wide);
  std::uint32_t slots[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i < count && !at.failed(); ++i)
    slots[i] = value_slot(at, is_load, values[i], type, as);
  if (at.failed()) return;
  Op& op = at.emit(op_name(is_load, where, type, wide, count),
                   {.d = slots[0], .b = slots[1], .c = slots[2], .e = slots[3]});
  finish_access(at, op, where, size * static_cast<std::uint32_t>(count), !order.empty());
  if (order == "release") op.flags |= kRelease;
}

// Words and operands of any kind; nothing happens.
void hint(Site& at) {
  at.words.take_all();
  at.emit(control::nothing);
}

// cp.async: a plain copy through temporaries. Groups and waits say nothing then.
void copy(Site& at) {
  if (!at.words.take("async")) return at.refuse("is not supported");
  if (at.words.take("bulk")) return bulk_copy(at);
  if (at.words.take("mbarrier")) return arrive_of_copies(at);
  const std::string wait = at.words.take_any({"commit_group", "wait_group", "wait_all"});
  if (!wait.empty()) {
    const bool some = wait == "wait_group" && at.operand(0).kind == Operand::Kind::integer;
    at.emit(control::copies).imm = wait == "commit_group" ? control::kCommitCopies
                                   : some ? static_cast<std::int64_t>(at.operand(0).bits)
                                          : control::kAllCopies;
    return;
  }
  at.words.take_any({"ca", "cg"});
  at.words.take_any({"shared", "shared::cta"});
  at.words.take("global");
  take_memory_words(at);
  const std::vector<Operand>& operands = at.now->operands;
  const std::size_t count = operands.size();
  if ((count != 3 && count != 4) || operands[2].kind != Operand::Kind::integer)
    return at.refuse("copies a number of bytes that is not fixed");
  const auto size = static_cast<std::uint32_t>(operands[2].bits);
  if (operands[2].bits > 16 || (size != 4 && size != 8 && size != 16))
    return at.refuse("copies a wrong number of bytes");
  if (count == 4 && (operands[3].kind != Operand::Kind::integer || operands[3].bits != size))
    return emit_copy(at, size, wide_source(at, 3), at.registers.constant(size, 8), kCopying);
  const Address to = address(at, at.operand(0), Space::shared);
  const Address from = address(at, at.operand(1), Space::global);
  const std::string tail = size == 4 ? "u32.32.1" : size == 8 ? "u64.64.1" : "u32.32.4";
  std::uint32_t slots[4] = {0, 0, 0, 0};
  for (std::uint32_t i = 0; i < (size == 16 ? 4u : 1u); ++i)
    slots[i] = at.registers.temporary(size == 8 ? 8 : 4);
  for (const bool load : {true, false}) {
    Op& op = at.emit((load ? "ld.global." : "st.shared.") + tail,
                     {.d = slots[0], .b = slots[1], .c = slots[2], .e = slots[3]});
    finish_access(at, op, load ? from : to, size, false);
    if (!load) op.flags |= kCopying;
  }
}

// Between addresses of a window and generic ones.
void cvta(Site& at) {
  const bool to = at.words.take("to");
  const Space space = take_space(at).space;
  const Type type = at.words.type(0);
  if (!at.count_is(2) || size_of(type) != 8)
    return at.refuse("is supported for 64-bit addresses only");
  Slots slots = at.slots(type, {type});
  const bool of_function = space == Space::param && !at.frame->function->is_entry;
  const std::uint64_t window = of_function ? kLocalWindow : window_of(space);
  if (window != 0) slots.b = at.registers.constant(window, 8);
  at.emit(window == 0 ? "mov.u64" : to ? "sub.u64" : "add.u64", slots);
}

void isspacep(Site& at) {
  const bool is_const = at.words.take("const");
  const Space space = take_space(at).space;
  if (!at.count_is(2) || is_const) return at.refuse("is not supported");
  const Slots slots = at.slots(Type::pred, {Type::u64});
  const std::uint32_t shift = at.registers.constant(40, 4), high = at.registers.temporary(8);
  const std::uint64_t window = window_of(space);
  const std::uint64_t last = window_of(Space::param) >> 40;  // global: above all windows
  const std::uint32_t b = at.registers.constant(window == 0 ? last : window >> 40, 8);
  at.emit("shr.u64", {high, slots.a, shift});
  at.emit(window == 0 ? "setp.gt.u64" : "setp.eq.u64", {slots.d, high, b});
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {
      {"ld", access},      {"ldu", access},       {"st", access}, {"prefetch", hint},
      {"prefetchu", hint}, {"nanosleep", hint},   {"cp", copy},   {"griddepcontrol", hint},
      {"cvta", cvta},      {"isspacep", isspacep}};
  return kOpcodes;
}

}  // namespace partita::ptx::accesses
