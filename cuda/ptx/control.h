// Ops that are the same on every level: control flow, barriers, what lanes of a warp exchange,
// atomics, calls, special registers.
#pragma once

#include "ptx/program.h"

namespace partita::ptx::control {

// Flags of ops with a predicate in `a`.
inline constexpr std::uint32_t kNegated = 1;
inline constexpr std::uint32_t kSynthetic = 2;  // no PTX instruction of its own

const Op* head(const Op* op, Warp& w);          // groups meet here
const Op* branch(const Op* op, Warp& w);        // to imm
const Op* branch_if(const Op* op, Warp& w);     // to imm where the predicate a holds
const Op* branch_table(const Op* op, Warp& w);  // to tables[imm][register a]
const Op* guard(const Op* op, Warp& w);         // the next op where the predicate a holds
const Op* rounding(const Op* op, Warp& w);      // the next op in rounding mode flags
const Op* exit_lanes(const Op* op, Warp& w);
const Op* call(const Op* op, Warp& w);        // calls[imm]
const Op* after_call(const Op* op, Warp& w);  // results of calls[imm]
const Op* ret(const Op* op, Warp& w);         // of callees[imm]; imm < 0: of the kernel
const Op* trap(const Op* op, Warp& w);
const Op* nothing(const Op* op, Warp& w);
const Op* fence(const Op* op, Warp& w);
// Of asynchronous copies: imm = groups that need not be there yet, or
inline constexpr std::int64_t kCommitCopies = -1, kAllCopies = -2;
const Op* copies(const Op* op, Warp& w);

// d, e: masks; a, b: masks
const Op* pred_and(const Op* op, Warp& w);
const Op* pred_or(const Op* op, Warp& w);
const Op* pred_xor(const Op* op, Warp& w);
const Op* pred_not(const Op* op, Warp& w);
const Op* pred_move(const Op* op, Warp& w);
const Op* pred_select(const Op* op, Warp& w);  // c ? a : b

// Barriers: barrier a (u32 register), threads b (where flags has kCounted).
inline constexpr std::uint32_t kCounted = 1, kArrive = 2, kReduce = 4;
inline constexpr std::uint32_t kReducePopc = 8, kReduceAnd = 16, kReduceOr = 32;
inline constexpr std::uint32_t kAligned = 64;   // all lanes of a warp come to the same instruction
inline constexpr std::uint32_t kLenient = 128;  // ended threads need not have come
const Op* bar(const Op* op, Warp& w);
const Op* bar_warp(const Op* op, Warp& w);

// Exchanges in a warp; members in register e.
enum class Shuffle : std::uint32_t { up, down, bfly, idx };
inline constexpr std::uint32_t kHasPredicate = 8, kWide = 16, kInvert = 32;
const Op* shuffle(const Op* op, Warp& w);  // d = a of lane f(b, c); flags; imm: predicate or -1
enum class Vote : std::uint32_t { all, any, uni, ballot };
const Op* vote(const Op* op, Warp& w);
const Op* active_mask(const Op* op, Warp& w);
const Op* match(const Op* op, Warp& w);  // flags kWide: u64, kHasPredicate: all (predicate b)
enum class Reduce : std::uint32_t { add, min_u, max_u, min_s, max_s, and_, or_, xor_ };
const Op* redux(const Op* op, Warp& w);
const Op* elect(const Op* op, Warp& w);

// Atomics: d = old value (or kNoResult), a = address, b, c = operands; imm = offset; flags: space.
// Those of barriers are of u64: words as in barrier_word.h, b = count or bytes.
enum class Atomic : std::uint32_t {
  add,
  min,
  max,
  inc,
  dec,
  and_,
  or_,
  xor_,
  exch,
  cas,
  barrier_arrive,
  barrier_drop,
  barrier_expect,
  barrier_complete,
  barrier_arrive_expect
};
OpFn atomic_op(Atomic what, Type type);  // nullptr where there is none
inline constexpr std::uint32_t kNoResult = 32, kSharedSpace = 16;

// c (u64) bytes to d, of them b (u64) from a, zeros behind; generic addresses; in pieces of
// op->size, at most 16 bytes.
const Op* copy_bytes(const Op* op, Warp& w);

// Matrices: imm is the number of the MatrixOp, a an address.
inline constexpr std::uint32_t kMatrixStore = 1;
const Op* matrix_multiply(const Op* op, Warp& w);
const Op* matrix_access(const Op* op, Warp& w);
const Op* matrix_rows(const Op* op, Warp& w);
const Op* texture(const Op* op, Warp& w);

const Op* clock64(const Op* op, Warp& w);
const Op* global_timer(const Op* op, Warp& w);

}  // namespace partita::ptx::control
