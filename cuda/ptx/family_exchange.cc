// Barriers of threads, and what lanes of a warp exchange.
#include "ptx/families.h"

namespace partita::ptx::exchanges {
namespace {

std::uint32_t index_of(std::initializer_list<std::string_view> names, const std::string& name) {
  return static_cast<std::uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Where results go: a register, or a register and a predicate.
struct Results {
  std::uint32_t d = 0;
  std::optional<std::uint32_t> p = {};
};
Results results(Site& at, Type type) {
  const Operand& to = at.operand(0);
  if (to.kind != Operand::Kind::pair || to.elements.size() != 2)
    return {at.destination(to, type), std::nullopt};
  const std::uint32_t d = at.destination(to.elements[0], type);
  return {d, at.destination(to.elements[1], Type::pred)};
}

void barrier_reduction(Site& at, const std::string& what, std::uint32_t aligned) {
  const bool popc = what == "popc";
  const std::size_t count = at.now->operands.size();
  const bool counted = count == 4;
  Slots slots{.d = at.destination(0, popc ? Type::u32 : Type::pred), .a = at.source(1, Type::u32)};
  if (counted) slots.b = at.source(2, Type::u32);
  slots.c = at.predicate(at.operand(count - 1));
  at.emit(control::bar, slots,
          control::kReduce | (counted ? control::kCounted : 0) |
              (popc            ? control::kReducePopc
               : what == "and" ? control::kReduceAnd
                               : control::kReduceOr) |
              aligned);
}

// A cluster is one block here.
void cluster_barrier(Site& at) {
  const bool arrives = at.words.take("arrive");
  at.words.take("wait");
  at.words.take_any({"acquire", "release", "relaxed"});
  if (arrives) {
    at.emit(control::nothing);
    return;
  }
  at.emit(control::bar, {.a = at.registers.constant(0, 4)}, control::kLenient);
  at.program.barriers = 1;
}

void bar(Site& at) {
  at.words.take("cta");
  const bool says_aligned = at.words.take("aligned");
  const std::uint32_t aligned = says_aligned || at.now->opcode == "bar" ? control::kAligned : 0u;
  if (at.words.take("warp")) {
    at.words.take("sync");
    if (at.count_is(1)) at.emit(control::bar_warp, {.e = at.source(0, Type::u32)});
    return;
  }
  if (at.words.take("cluster")) return cluster_barrier(at);
  at.program.barriers = 1;
  if (at.words.take("red"))
    return barrier_reduction(at, at.words.take_any({"popc", "and", "or"}), aligned);
  const bool arrive = at.words.take("arrive");
  at.words.take("sync");
  const std::size_t count = at.now->operands.size();
  if (count > 2 || (arrive && count != 2)) return at.refuse("has a wrong number of operands");
  Slots slots{.a = count > 0 ? at.source(0, Type::u32) : at.registers.constant(0, 4)};
  if (count > 1) slots.b = at.source(1, Type::u32);
  at.emit(control::bar, slots,
          (count > 1 ? control::kCounted : 0) | (arrive ? control::kArrive : 0) | aligned);
}

void shuffle(Site& at) {
  const bool sync = at.words.take("sync");
  const std::string mode = at.words.take_any({"up", "down", "bfly", "idx"});
  if (mode.empty() || !at.count_is(sync ? 5 : 4)) return at.refuse("has no mode that is known");
  const auto [d, p] = results(at, Type::b32);
  const Slots slots{d, at.source(1, Type::b32), at.source(2, Type::b32), at.source(3, Type::b32),
                    sync ? at.source(4, Type::b32) : at.registers.constant(kAllLanes, 4)};
  at.emit(control::shuffle, slots, index_of({"up", "down", "bfly", "idx"}, mode)).imm =
      p ? static_cast<std::int64_t>(*p) : -1;
}

void vote(Site& at) {
  const bool sync = at.words.take("sync");
  const std::string mode = at.words.take_any({"all", "any", "uni", "ballot"});
  if (mode.empty() || !at.count_is(sync ? 3 : 2)) return at.refuse("has no mode that is known");
  Slots slots{.d = at.destination(0, mode == "ballot" ? Type::b32 : Type::pred),
              .a = at.predicate(at.operand(1))};
  slots.e = sync ? at.source(2, Type::b32) : at.registers.constant(kAllLanes, 4);
  at.emit(control::vote, slots, index_of({"all", "any", "uni", "ballot"}, mode));
}

void activemask(Site& at) {
  const Slots slots = at.slots(Type::b32, {});
  at.emit(control::active_mask, slots);
}

void match(Site& at) {
  const std::string mode = at.words.take_any({"any", "all"});
  at.words.take("sync");
  const Type type = at.words.type(0);
  if (mode.empty() || !at.count_is(3)) return at.refuse("has no mode that is known");
  const auto [d, p] = results(at, Type::b32);
  Slots slots{.d = d, .b = p ? *p : at.registers.temporary(0)};
  slots.a = at.source(1, type);
  slots.e = at.source(2, Type::b32);
  at.emit(control::match, slots,
          (size_of(type) == 8 ? control::kWide : 0) | (mode == "all" ? control::kHasPredicate : 0));
}

void redux(Site& at) {
  at.words.take("sync");
  const std::string what = at.words.take_any({"add", "min", "max", "and", "or", "xor"});
  const Type type = at.words.type(0);
  if (what.empty() || size_of(type) != 4 || is_float(type) || !at.count_is(3))
    return at.refuse("is not supported");
  using control::Reduce;
  const bool sign = is_signed(type);
  const Reduce how = what == "add"   ? Reduce::add
                     : what == "min" ? (sign ? Reduce::min_s : Reduce::min_u)
                     : what == "max" ? (sign ? Reduce::max_s : Reduce::max_u)
                     : what == "and" ? Reduce::and_
                     : what == "or"  ? Reduce::or_
                                     : Reduce::xor_;
  Slots slots = at.slots(type, {type, Type::b32});
  slots.e = std::exchange(slots.b, 0);
  at.emit(control::redux, slots, static_cast<std::uint32_t>(how));
}

void elect(Site& at) {
  at.words.take("sync");
  if (!at.count_is(2)) return;
  const auto [d, p] = results(at, Type::b32);
  if (!p) return at.refuse("has no pair of results");
  at.emit(control::elect, {.d = d, .b = *p, .e = at.source(1, Type::b32)});
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {
      {"bar", bar},     {"barrier", bar}, {"shfl", shuffle}, {"vote", vote},
      {"match", match}, {"redux", redux}, {"elect", elect},  {"activemask", activemask}};
  return kOpcodes;
}

}  // namespace partita::ptx::exchanges
