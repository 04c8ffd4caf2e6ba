// Loads, stores, atomics and addresses.
#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

constexpr std::uint32_t kWideAddressFlag = 4, kStaticFlag = 8;  // as ops_memory.h has them

std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
      return kSharedWindow;
    case Space::local:
      return kLocalWindow;
    case Space::param:
      return kParameterWindow;
    default:
      return 0;
  }
}
std::string memory_type(Type type, bool is_load, std::uint32_t to) {
  const std::string bits = std::to_string(8 * size_of(type));
  const bool extends = is_load && is_signed(type) && size_of(type) < to;
  return (extends ? "s" : "u") + bits;
}

}  // namespace

Space Decoder::take_space(bool& generic) {
  generic = false;
  const std::string word =
      words_->take_any({"global", "shared", "local", "const", "param", "shared::cta",
                        "shared::cluster", "param::entry", "param::func"});
  if (word.starts_with("shared")) return Space::shared;
  if (word.starts_with("param")) return Space::param;
  if (word == "local") return Space::local;
  generic = word.empty();
  return Space::global;
}

// What says nothing here: caches, evictions, scopes. Ordering words make an access strong.
void Decoder::take_memory_words() {
  words_->take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  words_->take("nc");
  words_->take_any({"cta", "gpu", "sys", "cluster"});
  words_->take_any({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                    "L1::no_allocate"});
  words_->take_any({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  words_->take_any({"L2::64B", "L2::128B", "L2::256B"});
  words_->take("noftz");
  words_->take("mmio");
}

Decoder::Address Decoder::symbol_address(const Operand& operand, Space space) {
  Address where;
  where.space = space;
  const auto found = symbol(operand.text);
  if (!found) {
    refuse("'" + operand.text + "' is not known");
    return where;
  }
  const std::uint64_t value = found->value + static_cast<std::uint64_t>(operand.offset);
  using What = Symbol::What;
  if (found->what == What::kernel_parameter) {
    where.is_parameter = true;
    where.offset = static_cast<std::int64_t>(value);
    where.space = Space::param;
  } else if (found->what == What::local) {
    where.space = Space::local;
    where.is_static = true;
    where.offset = static_cast<std::int64_t>(value);
    where.slot = constant(0, 8);
  } else {
    if (found->what == What::shared) where.space = Space::shared;
    where.slot = constant(value, 8);
  }
  where.is_generic = false;
  return where;
}

Decoder::Address Decoder::address(const Operand& operand, Space space) {
  Address where;
  where.space = space;
  if (operand.kind != Operand::Kind::address) {
    refuse("expects an address");
    return where;
  }
  if (!operand.text.empty()) return symbol_address(operand, space);
  if (operand.reg < 0) {
    where.slot = constant(operand.bits + static_cast<std::uint64_t>(operand.offset), 8);
    return where;
  }
  Operand base = operand;
  base.kind = Operand::Kind::reg;
  const std::uint32_t bytes = register_bytes(base);
  if (failed()) return where;
  where.offset = operand.offset;
  where.slot = frame_->slots[static_cast<std::size_t>(operand.reg)];
  where.is_wide = bytes == 8;
  if (bytes != 8 && bytes != 4) refuse("has an address of " + std::to_string(bytes) + " bytes");
  if (space == Space::global && bytes == 4) {
    where.slot = resized(where.slot, 4, 8, false);
    where.is_wide = true;
  }
  // A kernel's parameters by a computed offset: through their window.
  if (space == Space::param && frame_->function->is_entry) {
    const std::uint32_t from = resized(where.slot, bytes, 8, false);
    where.slot = temporary(8);
    const std::uint32_t window = constant(kParameterWindow, 8);
    Op& op = emit("add.u64");
    op.d = where.slot;
    op.a = from;
    op.b = window;
    where.space = Space::global;
    where.is_generic = true;
    where.is_wide = true;
  } else if (space == Space::param) {
    where.space = Space::local;
  }
  return where;
}

void Decoder::finish_access(Op& op, const Address& where, std::uint32_t size, bool strong) {
  op.a = where.slot;
  op.imm = where.offset;
  op.size = size;
  if (size < 4 && (where.space == Space::shared || where.is_generic))
    program_.accesses_bytes = true;
  op.span = program_.spans++;
  const bool is_static = where.is_static && where.offset >= 0 && where.offset % size == 0 &&
                         static_cast<std::uint64_t>(where.offset) + size <= next_local_;
  op.flags = (strong ? kStrong : 0) | (where.is_generic ? kGeneric : 0);
  if (where.space != Space::global)
    op.flags |= (where.is_wide ? kWideAddressFlag : 0) | (is_static ? kStaticFlag : 0);
}

// A kernel's parameter at a fixed place: a register that the launch fills.
void Decoder::load_parameter(const Address& where, const Operand& to, Type type) {
  const auto size = static_cast<std::uint32_t>(size_of(type));
  const auto offset = static_cast<std::uint32_t>(where.offset);
  const Target target = loose_destination(to, type);
  if (failed()) return;
  const std::uint32_t kind = size | (is_signed(type) ? 256u : 0u);
  const auto [at, is_new] = parameter_slots_.try_emplace({offset, kind}, 0);
  if (is_new) {
    at->second = kConstantSlot | static_cast<std::uint32_t>(program_.constants.size());
    const std::size_t bytes = kLanes * register_bytes_of(type);
    program_.constants.resize(program_.constants.size() + (bytes + 63) / 64 * 64);
    program_.parameters.push_back(
        {offset, size, at->second, is_signed(type), register_bytes_of(type)});
  }
  Op& op = emit("mov.u" + std::to_string(8 * target.from));
  op.d = target.slot;
  op.a = at->second;
  settle(target);
}

void Decoder::access(bool is_load) {
  bool generic = false;
  const bool strong = !words_->take_any({"volatile", "relaxed", "acquire", "release"}).empty();
  words_->take("weak");
  const Space space = take_space(generic);
  take_memory_words();
  const std::string vector = words_->take_any({"v2", "v4"});
  const Type type = words_->type(0);
  if (now_->operands.size() < 2 || type == Type::none || size_of(type) > 8)
    return refuse("has a type it cannot have");
  Address where = address(operand(is_load ? 1 : 0), space);
  if (failed()) return;
  if (where.space == Space::global && !where.is_parameter && !where.is_generic)
    where.is_generic = generic;
  const Operand& value = operand(is_load ? 0 : 1);
  std::vector<Operand> values = {value};
  if (value.kind == Operand::Kind::vector) values = value.elements;
  const std::size_t count = vector.empty() ? 1 : vector == "v2" ? 2 : 4;
  if (values.size() != count) return refuse("has a vector of another length");
  const auto size = static_cast<std::uint32_t>(size_of(type));
  if (where.is_parameter) {
    if (!is_load) return refuse("stores into a parameter of the kernel");
    for (std::size_t i = 0; i < count; ++i) {
      load_parameter(where, values[i], type);
      where.offset += size;
    }
    return;
  }
  std::uint32_t wide = register_bytes_of(type);
  for (const Operand& one : values)
    if (one.kind == Operand::Kind::reg) wide = register_bytes(one);
  const Type as = wide == 8 ? Type::b64 : wide == 4 ? Type::b32 : Type::b16;
  std::uint32_t slots[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    Operand one = values[i];
    if (one.kind != Operand::Kind::reg && one.kind != Operand::Kind::sink) {
      one.bits = literal(one, type);
      if (one.kind != Operand::Kind::special && one.kind != Operand::Kind::symbol)
        one.kind = Operand::Kind::integer;
    }
    slots[i] = is_load ? destination(one, as) : source(one, as);
  }
  const std::string name = std::string(is_load ? "ld." : "st.") +
                           (where.space == Space::shared  ? "shared."
                            : where.space == Space::local ? "local."
                                                          : "global.") +
                           memory_type(type, is_load, wide) + "." + std::to_string(8 * wide) + "." +
                           std::to_string(count);
  if (failed()) return;
  Op& op = emit(name);
  op.d = slots[0];
  op.b = slots[1];
  op.c = slots[2];
  op.e = slots[3];
  finish_access(op, where, size * static_cast<std::uint32_t>(count), strong);
}

void Decoder::on_ld() { access(true); }
void Decoder::on_st() { access(false); }

void Decoder::on_atom() {
  const bool is_red = now_->opcode == "red";
  words_->take_any({"relaxed", "acquire", "release", "acq_rel", "sc"});
  bool generic = false;
  const Space space = take_space(generic);
  words_->take_any({"cta", "gpu", "sys", "cluster"});
  words_->take("noftz");
  const std::string what =
      words_->take_any({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  const Type type = words_->type(0);
  static constexpr std::string_view kNames[] = {"add", "min", "max", "inc",  "dec",
                                                "and", "or",  "xor", "exch", "cas"};
  std::uint32_t which = 0;
  while (which < 10 && kNames[which] != what) ++which;
  const OpFn fn =
      which < 10 ? control::atomic_op(static_cast<control::Atomic>(which), type) : nullptr;
  if (fn == nullptr || space == Space::local || space == Space::param)
    return refuse("is not supported");
  const std::size_t first = is_red ? 0 : 1;
  if (!count_is(first + (what == "cas" ? 3 : 2))) return;
  Address where = address(operand(first), space);
  if (where.space == Space::global) where.is_generic = generic && operand(first).text.empty();
  const std::uint32_t b = source(first + 1, type);
  const std::uint32_t c = what == "cas" ? source(first + 2, type) : 0;
  const bool sink = is_red || operand(0).kind == Operand::Kind::sink;
  const auto old = sink ? std::nullopt : std::optional(destination(0, type));
  emit_atomic(fn, where, b, c, old, static_cast<std::uint32_t>(size_of(type)));
}

void Decoder::emit_atomic(OpFn fn, const Address& where, std::uint32_t b, std::uint32_t c,
                          std::optional<std::uint32_t> old, std::uint32_t size) {
  Op& op = emit(fn);
  op.d = old.value_or(0);
  op.b = b;
  op.c = c;
  op.a = where.slot;
  op.imm = where.offset;
  op.size = size;
  op.span = program_.spans++;
  op.flags = (where.is_generic ? kGeneric : 0) | (where.is_wide ? kWideAddressFlag : 0) |
             (where.space == Space::shared ? control::kSharedSpace : 0) |
             (old ? 0 : control::kNoResult);
}

void Decoder::on_prefetch() {
  while (!words_->left().empty()) words_->take(words_->left());
  emit(control::nothing);
}

// cp.async: a plain copy through temporaries. Groups and waits say nothing then.
void Decoder::on_cp_async() {
  if (!words_->take("async")) return refuse("is not supported");
  if (words_->take("bulk")) return bulk_copy();
  if (words_->take("mbarrier")) return arrive_of_copies();
  if (!words_->take_any({"commit_group", "wait_group", "wait_all"}).empty()) {
    emit(control::nothing);
    return;
  }
  words_->take_any({"ca", "cg"});
  words_->take_any({"shared", "shared::cta"});
  words_->take("global");
  take_memory_words();
  const std::size_t count = now_->operands.size();
  if ((count != 3 && count != 4) || operand(2).kind != Operand::Kind::integer)
    return refuse("copies a number of bytes that is not fixed");
  const std::uint64_t size = operand(2).bits;
  if (size != 4 && size != 8 && size != 16) return refuse("copies a wrong number of bytes");
  if (count == 4 && (operand(3).kind != Operand::Kind::integer || operand(3).bits != size))
    return emit_copy(static_cast<std::uint32_t>(size), count_source(3), constant(size, 8));
  const Address to = address(operand(0), Space::shared);
  const Address from = address(operand(1), Space::global);
  const std::string tail = size == 4 ? "u32.32.1" : size == 8 ? "u64.64.1" : "u32.32.4";
  std::uint32_t slots[4] = {0, 0, 0, 0};
  for (std::uint64_t i = 0; i < (size == 16 ? 4u : 1u); ++i)
    slots[i] = temporary(size == 8 ? 8 : 4);
  for (const bool load : {true, false}) {
    Op& op = emit((load ? "ld.global." : "st.shared.") + tail);
    op.d = slots[0];
    op.b = slots[1];
    op.c = slots[2];
    op.e = slots[3];
    finish_access(op, load ? from : to, static_cast<std::uint32_t>(size), false);
  }
}

// Between addresses of a window and generic ones.
void Decoder::on_cvta() {
  const bool to = words_->take("to");
  bool generic = false;
  const std::string word = words_->take_any({"global", "shared", "local", "const", "param",
                                             "shared::cta", "shared::cluster", "param::entry"});
  const Space space = word.starts_with("shared")  ? Space::shared
                      : word.starts_with("param") ? Space::param
                      : word == "local"           ? Space::local
                                                  : Space::global;
  const Type type = words_->type(0);
  if (!count_is(2) || size_of(type) != 8 || generic)
    return refuse("is supported for 64-bit addresses only");
  const std::uint32_t d = destination(0, type), a = source(1, type);
  const bool of_function = space == Space::param && !frame_->function->is_entry;
  const std::uint64_t window = of_function ? kLocalWindow : window_of(space);
  const std::uint32_t b = window == 0 ? 0 : constant(window, 8);
  Op& op = emit(window == 0 ? std::string("mov.u64") : to ? "sub.u64" : "add.u64");
  op.d = d;
  op.a = a;
  op.b = b;
}

void Decoder::on_isspacep() {
  const std::string word = words_->take_any({"global", "shared", "local", "const", "param",
                                             "shared::cta", "shared::cluster", "param::entry"});
  const Space space = word.starts_with("shared")  ? Space::shared
                      : word.starts_with("param") ? Space::param
                      : word == "local"           ? Space::local
                                                  : Space::global;
  if (!count_is(2) || word == "const") return refuse("is not supported");
  const std::uint32_t d = destination(0, Type::pred), a = source(1, Type::u64);
  const std::uint32_t shift = constant(40, 4), high = temporary(8);
  const std::uint64_t window = window_of(space);
  const std::uint64_t last = window_of(Space::param) >> 40;  // global: above all windows
  const std::uint32_t b = constant(window == 0 ? last : window >> 40, 8);
  Op& part = emit("shr.u64");
  part.d = high;
  part.a = a;
  part.b = shift;
  Op& op = emit(window == 0 ? std::string("setp.gt.u64") : "setp.eq.u64");
  op.d = d;
  op.a = high;
  op.b = b;
}

}  // namespace partita::ptx
