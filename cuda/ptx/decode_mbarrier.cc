// mbarrier objects, and copies that arrive at them: atomics on their word (barrier_word.h). Copies
// are done at once, so what they would arrive with later they arrive with here.
#include "ptx/barrier_word.h"
#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

using control::Atomic;

constexpr std::uint32_t kBytes = 8;       // of the word
constexpr std::uint32_t kBulkPiece = 16;  // sizes and addresses of bulk copies are multiples

}  // namespace

Decoder::Address Decoder::barrier_address(std::size_t i) {
  words_->take_any({"acquire", "release", "relaxed"});
  words_->take_any({"cta", "cluster"});
  bool generic = false;
  const Space space = take_space(generic);
  words_->take("b64");
  Address where = address(operand(i), space);
  if (where.space == Space::global) where.is_generic = generic && operand(i).text.empty();
  if (where.space != Space::shared && !where.is_generic) refuse("is no barrier in shared memory");
  return where;
}

void Decoder::emit_barrier(Atomic what, const Address& where, std::uint32_t value,
                           std::optional<std::uint32_t> old) {
  emit_atomic(control::atomic_op(what, Type::u64), where, value, 0, old, kBytes);
}

// A number of 32 bits as one of 64.
std::uint32_t Decoder::count_source(std::size_t i) {
  return resized(source(i, Type::u32), 4, kBytes, false);
}

void Decoder::on_mbarrier() {
  const std::string what = words_->take_any({"init", "inval", "arrive_drop", "arrive", "test_wait",
                                             "try_wait", "complete_tx", "pending_count"});
  if (what == "arrive" || what == "arrive_drop") return barrier_arrive(what == "arrive_drop");
  if (what == "test_wait" || what == "try_wait") return barrier_test();
  if (what == "pending_count") {
    words_->take("b64");
    if (!count_is(2)) return;
    const std::uint32_t state = source(1, Type::b64), mask = constant(barrier_word::kCount, kBytes);
    const std::uint32_t count = temporary(kBytes), d = destination(0, Type::u32);
    Op& op = emit("and.b64");
    op.d = count;
    op.a = state;
    op.b = mask;
    emit_resize(d, count, 4, kBytes, false);
    return;
  }
  if (what == "inval") {
    barrier_address(0);
    emit(control::nothing);
    return;
  }
  const bool expects = what.empty() && words_->take("expect_tx");
  if (what.empty() && !expects) return refuse("is not supported");
  const Address where = barrier_address(0);
  if (!count_is(2)) return;
  const std::uint32_t value = count_source(1);
  if (what != "init")
    return emit_barrier(expects ? Atomic::barrier_expect : Atomic::barrier_complete, where, value,
                        std::nullopt);
  const std::uint32_t word = temporary(kBytes);
  const std::uint32_t each = constant(barrier_word::kPerCount, kBytes);
  const std::uint32_t none = constant(barrier_word::kNoBytes << barrier_word::kBytesAt, kBytes);
  Op& times = emit("mul.lo.u64");
  times.d = word;
  times.a = value;
  times.b = each;
  Op& plus = emit("add.u64");
  plus.d = word;
  plus.a = word;
  plus.b = none;
  emit_atomic(control::atomic_op(Atomic::exch, Type::b64), where, word, 0, std::nullopt, kBytes);
}

void Decoder::barrier_arrive(bool drops) {
  words_->take("noComplete");
  const bool expects = words_->take("expect_tx");
  if (drops && expects) return refuse("is not supported");
  const std::size_t count = now_->operands.size();
  if (count != 2 && count != 3) return refuse("has a wrong number of operands");
  const Address where = barrier_address(1);
  if (expects && count != 3) return refuse("has no number of bytes");
  const std::uint32_t value = count == 3 ? count_source(2) : constant(1, kBytes);
  const bool sink = operand(0).kind == Operand::Kind::sink;
  const auto old = sink ? std::nullopt : std::optional(destination(0, Type::b64));
  emit_barrier(drops     ? Atomic::barrier_drop
               : expects ? Atomic::barrier_arrive_expect
                         : Atomic::barrier_arrive,
               where, value, old);
}

// Whether the phase of a state, or of a parity, is over: it is not the one of now.
void Decoder::barrier_test() {
  const bool parity = words_->take("parity");
  const std::size_t count = now_->operands.size();
  if (count != 3 && count != 4) return refuse("has a wrong number of operands");  // and a hint
  const Address where = barrier_address(1);
  const std::uint32_t d = destination(0, Type::pred);
  const std::uint32_t now = temporary(kBytes), of = temporary(kBytes);
  const std::uint32_t shift = constant(barrier_word::kPhaseAt, 4);
  const std::uint32_t other = parity ? count_source(2) : source(2, Type::b64);
  // An atomic that changes nothing: it counts as what a lock may wait for.
  emit_barrier(Atomic::barrier_expect, where, constant(0, kBytes), now);
  Op& current = emit("shr.u64");
  current.d = now;
  current.a = now;
  current.b = shift;
  std::uint32_t asked = other;
  if (!parity) {
    Op& phase = emit("shr.u64");
    phase.d = of;
    phase.a = other;
    phase.b = shift;
    asked = of;
  }
  Op& differs = emit("setp.ne.u64");
  differs.d = d;
  differs.a = now;
  differs.b = asked;
}

// What lies at an address of any space, as a generic one.
std::uint32_t Decoder::generic_address(const Address& where) {
  const std::uint32_t wide = where.is_wide ? where.slot : resized(where.slot, 4, 8, false);
  const std::uint64_t window = where.space == Space::shared ? kSharedWindow : 0;
  const std::uint32_t add = constant(window + static_cast<std::uint64_t>(where.offset), 8);
  const std::uint32_t sum = temporary(8);
  Op& op = emit("add.u64");
  op.d = sum;
  op.a = wide;
  op.b = add;
  return sum;
}

// From the second operand, in global memory, to the first, in shared memory.
void Decoder::emit_copy(std::uint32_t piece, std::uint32_t have, std::uint32_t want) {
  const std::uint32_t to = generic_address(address(operand(0), Space::shared));
  const std::uint32_t from = generic_address(address(operand(1), Space::global));
  Op& op = emit(control::copy_bytes);
  op.d = to;
  op.a = from;
  op.b = have;
  op.c = want;
  op.size = piece;
  op.span = program_.spans++;
}

// cp.async.bulk from global to shared memory: each lane copies its bytes, then completes them.
void Decoder::bulk_copy() {
  if (words_->take_any({"commit_group", "wait_group"}) != "") {
    words_->take("read");
    emit(control::nothing);
    return;
  }
  const bool to_shared = !words_->take_any({"shared::cluster", "shared::cta"}).empty();
  const bool from_global = words_->take("global");
  const bool completes = words_->take("mbarrier::complete_tx::bytes");
  take_memory_words();
  if (!to_shared || !from_global || !completes || !count_is(4)) return refuse("is not supported");
  const std::uint32_t size = count_source(2);
  const Address where = address(operand(3), Space::shared);
  if (failed()) return;
  emit_copy(kBulkPiece, size, size);
  emit_barrier(Atomic::barrier_complete, where, size, std::nullopt);
}

// cp.async.mbarrier.arrive: the copies before it are done; without .noinc it expects itself.
void Decoder::arrive_of_copies() {
  words_->take("arrive");
  const bool counted = words_->take("noinc");
  const Address where = barrier_address(0);
  if (!count_is(1)) return;
  if (counted)
    emit_barrier(Atomic::barrier_arrive, where, constant(1, kBytes), std::nullopt);
  else
    emit(control::nothing);
}

}  // namespace partita::ptx
