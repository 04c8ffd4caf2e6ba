// Where accesses go.
#include "ptx/bases.h"
#include "ptx/families.h"

namespace partita::ptx {
namespace {

Address symbol_address(Site& at, const Operand& operand, Space space) {
  Address where{.space = space};
  const auto found = at.frames.symbol(*at.frame, operand.text);
  if (!found) {
    at.refuse("'" + operand.text + "' is not known");
    return where;
  }
  using What = Symbol::What;
  const std::uint64_t value = found->value + static_cast<std::uint64_t>(operand.offset);
  if (found->what == What::framed) {
    where.space = Space::local;
    where.slot = at.frame->callee.frame_slot;
    where.offset = static_cast<std::int64_t>(value);
    return where;
  }
  where.is_parameter = found->what == What::kernel_parameter;
  where.is_static = found->what == What::local;
  if (where.is_parameter || where.is_static) {
    where.space = where.is_parameter ? Space::param : Space::local;
    where.offset = static_cast<std::int64_t>(value);
  } else if (found->what == What::shared) {
    where.space = Space::shared;
    where.array = bounds_of(at.frames, *at.frame, operand.text);
  }
  if (!where.is_parameter) where.slot = at.registers.constant(where.is_static ? 0 : value, 8);
  return where;
}

}  // namespace

SpaceWord take_space(Site& at) {
  const std::string word =
      at.words.take_any({"global", "shared", "local", "const", "param", "shared::cta",
                         "shared::cluster", "param::entry", "param::func"});
  if (word.starts_with("shared")) return {Space::shared};
  if (word.starts_with("param")) return {Space::param};
  if (word == "local") return {Space::local};
  return {Space::global, word.empty()};
}

void take_memory_words(Site& at) {
  Modifiers& words = at.words;
  words.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  words.take("nc");
  words.take_any({"cta", "gpu", "sys", "cluster"});
  words.take_any({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                  "L1::no_allocate"});
  words.take_any({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  words.take_any({"L2::64B", "L2::128B", "L2::256B"});
  words.take("noftz");
  words.take("mmio");
}

Address address(Site& at, const Operand& operand, Space space) {
  Address where{.space = space};
  if (operand.kind != Operand::Kind::address) {
    at.refuse("expects an address");
    return where;
  }
  if (!operand.text.empty()) return symbol_address(at, operand, space);
  if (operand.reg < 0) {
    where.slot =
        at.registers.constant(operand.bits + static_cast<std::uint64_t>(operand.offset), 8);
    return where;
  }
  Operand base = operand;
  base.kind = Operand::Kind::reg;
  const std::uint32_t bytes = at.register_bytes(base);
  if (at.failed()) return where;
  where.offset = operand.offset;
  where.slot = at.register_slot(base);
  where.is_wide = bytes == 8;
  if (const auto reg = static_cast<std::size_t>(operand.reg);
      space == Space::shared && reg < at.frame->bases.size())
    where.array = at.frame->bases[reg];
  if (bytes != 8 && bytes != 4) at.refuse("has an address of " + std::to_string(bytes) + " bytes");
  if (space == Space::global && bytes == 4) {
    where.slot = at.resized(where.slot, 4, 8, false);
    where.is_wide = true;
  }
  // A kernel's parameters by a computed offset: through their window.
  if (space == Space::param && at.frame->function->is_entry) {
    const std::uint32_t from = at.resized(where.slot, bytes, 8, false);
    where.slot = at.registers.temporary(8);
    at.emit("add.u64", {where.slot, from, at.registers.constant(kParameterWindow, 8)});
    where.space = Space::global;
    where.is_generic = where.is_wide = true;
  } else if (space == Space::param) {
    where.space = Space::local;
  }
  return where;
}

std::uint32_t generic_address(Site& at, const Operand& operand, Space space) {
  const Address where = address(at, operand, space);
  const std::uint32_t wide = where.is_wide ? where.slot : at.resized(where.slot, 4, 8, false);
  const std::uint64_t window = where.space == Space::shared ? kSharedWindow : 0;
  const std::uint32_t add =
      at.registers.constant(window + static_cast<std::uint64_t>(where.offset), 8);
  const std::uint32_t sum = at.registers.temporary(8);
  at.emit("add.u64", {sum, wide, add});
  return sum;
}

}  // namespace partita::ptx
