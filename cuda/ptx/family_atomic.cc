// Atomics; mbarrier objects, which are atomics on their word (barrier_word.h), and copies that
// arrive at them. Copies are done at once, so what they would arrive with later they arrive with
// here.
#include "ptx/barrier_word.h"
#include "ptx/families.h"

namespace partita::ptx::atomics {
namespace {

using control::Atomic;
using Old = std::optional<std::uint32_t>;  // where the value before goes

constexpr std::uint32_t kBytes = 8;       // of the word
constexpr std::uint32_t kBulkPiece = 16;  // sizes and addresses of bulk copies are multiples

void emit_atomic(Site& at, OpFn fn, const Address& where, Slots slots, Old old,
                 std::uint32_t size) {
  slots.d = old.value_or(0);
  slots.a = where.slot;
  Op& op = at.emit(fn, slots,
                   (where.is_generic ? kGeneric : 0) | (where.is_wide ? kWideAddressFlag : 0) |
                       (where.space == Space::shared ? control::kSharedSpace : 0) |
                       (old ? 0 : control::kNoResult));
  op.imm = where.offset;
  op.size = size;
  op.span = at.program.spans++;
  if (where.space != Space::shared) return;
  at.program.arrays.resize(at.program.spans);
  at.program.arrays.back() = where.array;
}

Old old_value(Site& at, bool is_red, Type type) {
  if (is_red || at.operand(0).kind == Operand::Kind::sink) return std::nullopt;
  return at.destination(0, type);
}

void atomic(Site& at) {
  const bool is_red = at.now->opcode == "red";
  const std::string order = at.words.take_any({"relaxed", "acquire", "release", "acq_rel", "sc"});
  const auto [space, generic] = take_space(at);
  at.words.take_any({"cta", "gpu", "sys", "cluster"});
  at.words.take("noftz");
  static constexpr std::string_view kNames[] = {"add", "min", "max", "inc",  "dec",
                                                "and", "or",  "xor", "exch", "cas"};
  std::uint32_t which = 0;
  while (which < std::size(kNames) && !at.words.take(kNames[which])) ++which;
  const Type type = at.words.type(0);
  const OpFn fn =
      which < std::size(kNames) ? control::atomic_op(static_cast<Atomic>(which), type) : nullptr;
  if (fn == nullptr || space == Space::local || space == Space::param)
    return at.refuse("is not supported");
  const bool swaps = static_cast<Atomic>(which) == Atomic::cas;
  const std::size_t first = is_red ? 0 : 1;
  if (!at.count_is(first + (swaps ? 3 : 2))) return;
  Address where = address(at, at.operand(first), space);
  if (where.space == Space::global) where.is_generic = generic && at.operand(first).text.empty();
  Slots slots{.b = at.source(first + 1, type)};
  if (swaps) slots.c = at.source(first + 2, type);
  emit_atomic(at, fn, where, slots, old_value(at, is_red, type),
              static_cast<std::uint32_t>(size_of(type)));
  if (order == "release" || order == "acq_rel" || order == "sc")
    at.program.code.back().flags |= kRelease;
}

Address barrier_address(Site& at, std::size_t i) {
  at.words.take_any({"acquire", "release", "relaxed"});
  at.words.take_any({"cta", "cluster"});
  const auto [space, generic] = take_space(at);
  at.words.take("b64");
  Address where = address(at, at.operand(i), space);
  if (where.space == Space::global) where.is_generic = generic && at.operand(i).text.empty();
  if (where.space != Space::shared && !where.is_generic)
    at.refuse("is no barrier in shared memory");
  return where;
}

// `order`: kRelease, or 0 of one that only looks.
void emit_barrier(Site& at, Atomic what, const Address& where, std::uint32_t value,
                  Old old = std::nullopt, std::uint32_t order = kRelease) {
  emit_atomic(at, control::atomic_op(what, Type::u64), where, {.b = value}, old, kBytes);
  if (!at.failed()) at.program.code.back().flags |= order;
}

void pending_count(Site& at) {
  at.words.take("b64");
  if (!at.count_is(2)) return;
  const std::uint32_t state = at.source(1, Type::b64);
  const std::uint32_t mask = at.registers.constant(barrier_word::kCount, kBytes);
  const std::uint32_t count = at.registers.temporary(kBytes), d = at.destination(0, Type::u32);
  at.emit("and.b64", {count, state, mask});
  at.emit_resize(d, count, 4, kBytes, false);
}

void init(Site& at) {
  const Address where = barrier_address(at, 0);
  if (!at.count_is(2)) return;
  const std::uint32_t value = wide_source(at, 1), word = at.registers.temporary(kBytes);
  const std::uint32_t each = at.registers.constant(barrier_word::kPerCount, kBytes);
  const std::uint32_t none =
      at.registers.constant(barrier_word::kNoBytes << barrier_word::kBytesAt, kBytes);
  at.emit("mul.lo.u64", {word, value, each});
  at.emit("add.u64", {word, word, none});
  emit_atomic(at, control::atomic_op(Atomic::exch, Type::b64), where, {.b = word}, std::nullopt,
              kBytes);
}

void arrive(Site& at, bool drops) {
  at.words.take("noComplete");
  const bool expects = at.words.take("expect_tx");
  if (drops && expects) return at.refuse("is not supported");
  const std::size_t count = at.now->operands.size();
  if (count != 2 && count != 3) return at.refuse("has a wrong number of operands");
  const Address where = barrier_address(at, 1);
  if (expects && count != 3) return at.refuse("has no number of bytes");
  const std::uint32_t value = count == 3 ? wide_source(at, 2) : at.registers.constant(1, kBytes);
  emit_barrier(at,
               drops     ? Atomic::barrier_drop
               : expects ? Atomic::barrier_arrive_expect
                         : Atomic::barrier_arrive,
               where, value, old_value(at, false, Type::b64));
}

// Whether the phase of a state, or of a parity, is over: it is not the one of now.
void test(Site& at) {
  const bool parity = at.words.take("parity");
  const std::size_t count = at.now->operands.size();
  if (count != 3 && count != 4)  // and a hint
    return at.refuse("has a wrong number of operands");
  const Address where = barrier_address(at, 1);
  const std::uint32_t d = at.destination(0, Type::pred);
  const std::uint32_t now = at.registers.temporary(kBytes), of = at.registers.temporary(kBytes);
  const std::uint32_t shift = at.registers.constant(barrier_word::kPhaseAt, 4);
  const std::uint32_t other = parity ? wide_source(at, 2) : at.source(2, Type::b64);
  // An atomic that changes nothing: it counts as what a lock may wait for.
  emit_barrier(at, Atomic::barrier_expect, where, at.registers.constant(0, kBytes), now, 0);
  at.emit("shr.u64", {now, now, shift});
  if (!parity) at.emit("shr.u64", {of, other, shift});
  at.emit("setp.ne.u64", {d, now, parity ? other : of});
}

void mbarrier(Site& at) {
  const std::string what = at.words.take_any({"init", "inval", "arrive_drop", "arrive", "test_wait",
                                              "try_wait", "complete_tx", "pending_count"});
  if (what == "arrive" || what == "arrive_drop") return arrive(at, what == "arrive_drop");
  if (what == "test_wait" || what == "try_wait") return test(at);
  if (what == "pending_count") return pending_count(at);
  if (what == "init") return init(at);
  if (what == "inval") {
    barrier_address(at, 0);
    at.emit(control::nothing);
    return;
  }
  if (what.empty() && !at.words.take("expect_tx")) return at.refuse("is not supported");
  const Address where = barrier_address(at, 0);
  if (!at.count_is(2)) return;
  emit_barrier(at, what.empty() ? Atomic::barrier_expect : Atomic::barrier_complete, where,
               wide_source(at, 1));
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {{"atom", atomic}, {"red", atomic}, {"mbarrier", mbarrier}};
  return kOpcodes;
}

}  // namespace partita::ptx::atomics

namespace partita::ptx {

std::uint32_t wide_source(Site& at, std::size_t i) {
  return at.resized(at.source(i, Type::u32), 4, 8, false);
}

void emit_copy(Site& at, std::uint32_t piece, std::uint32_t have, std::uint32_t want,
               std::uint32_t flags) {
  const std::uint32_t to = generic_address(at, at.operand(0), Space::shared);
  const std::uint32_t from = generic_address(at, at.operand(1), Space::global);
  Op& op = at.emit(control::copy_bytes, {to, from, have, want}, flags);
  op.size = piece;
  op.span = at.program.spans++;
}

// Each lane copies its bytes, then completes them.
void bulk_copy(Site& at) {
  if (!at.words.take_any({"commit_group", "wait_group"}).empty()) {
    at.words.take("read");
    at.emit(control::nothing);
    return;
  }
  const bool to_shared = !at.words.take_any({"shared::cluster", "shared::cta"}).empty();
  const bool from_global = at.words.take("global");
  const bool completes = at.words.take("mbarrier::complete_tx::bytes");
  take_memory_words(at);
  if (!to_shared || !from_global || !completes || !at.count_is(4))
    return at.refuse("is not supported");
  const std::uint32_t size = wide_source(at, 2);
  const Address where = address(at, at.operand(3), Space::shared);
  if (at.failed()) return;
  emit_copy(at, atomics::kBulkPiece, size, size);
  atomics::emit_barrier(at, control::Atomic::barrier_complete, where, size);
}

// The copies before it are done; without .noinc it expects itself.
void arrive_of_copies(Site& at) {
  at.words.take("arrive");
  const bool counted = at.words.take("noinc");
  const Address where = atomics::barrier_address(at, 0);
  if (!at.count_is(1)) return;
  at.emit(control::copies).imm = control::kAllCopies;
  if (counted)
    atomics::emit_barrier(at, control::Atomic::barrier_arrive, where, at.registers.constant(1, 8));
  else
    at.emit(control::nothing);
}

}  // namespace partita::ptx
