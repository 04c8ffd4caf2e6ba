// Where ops lead, against what is left of the reach of each when others are taken away.
#include "ptx/ways.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "ptx/control.h"

namespace partita::ptx {
namespace {

constexpr std::size_t kOps = 14;
using Reach = std::vector<std::vector<bool>>;

bool is_end(const Op& op) { return op.fn == control::exit_lanes; }
bool is_real(const Op& op) {
  return op.fn == control::pred_move || op.fn == control::branch_if || op.fn == control::trap;
}

std::vector<std::uint32_t> next_of(const Program& program, std::uint32_t pc) {
  const Op& op = program.code[pc];
  if (is_end(op) || op.fn == control::trap) return {};
  const auto target = static_cast<std::uint32_t>(op.imm);
  if (op.fn == control::branch) return {target};
  return op.fn == control::branch_if ? std::vector{target, pc + 1} : std::vector{pc + 1};
}

// From whom, itself too, a way leads to whom that does not go over `without`.
Reach reach(const Program& program, std::size_t without) {
  Reach all(kOps, std::vector<bool>(kOps));
  for (std::uint32_t pc = 0; pc < kOps; ++pc) {
    if (pc == without) continue;
    all[pc][pc] = true;
    for (const std::uint32_t to : next_of(program, pc)) all[pc][to] = to != without;
  }
  for (std::size_t k = 0; k < kOps; ++k)
    for (std::size_t i = 0; i < kOps; ++i)
      for (std::size_t j = 0; j < kOps; ++j)
        if (all[i][k] && all[k][j]) all[i][j] = true;
  return all;
}

class Oracle {
 public:
  explicit Oracle(const Program& program) : program_(program), all_(reach(program, kOps)) {
    for (std::size_t op = 0; op < kOps; ++op) without_.push_back(reach(program, op));
  }
  bool went_on(std::uint32_t exchange, std::uint32_t at) const {
    std::uint32_t first = at;
    for (std::size_t i = 0; i < kOps && !is_real(program_.code[first]); ++i)
      if (const auto next = next_of(program_, first); !next.empty()) first = next[0];
    if (!is_real(program_.code[first])) return false;
    if (all_[exchange + 1][exchange])
      return all_[first][exchange] && over(first, exchange + 1) && !round(exchange, first);
    for (std::uint32_t op = 0; op < kOps; ++op)
      if (is_real(program_.code[op]) && ends(all_[op]) && over(op, exchange + 1) && over(op, at))
        return true;
    return false;
  }

 private:
  bool ends(const std::vector<bool>& reached) const {
    for (std::size_t pc = 0; pc < kOps; ++pc)
      if (reached[pc] && is_end(program_.code[pc])) return true;
    return false;
  }
  bool over(std::uint32_t op, std::uint32_t start) const {
    return all_[start][op] && !ends(without_[op][start]);
  }
  bool round(std::uint32_t exchange, std::uint32_t op) const {
    for (std::uint32_t pc = 0; pc < kOps; ++pc)
      if (all_[exchange + 1][pc] && all_[pc][exchange])
        for (const std::uint32_t to : next_of(program_, pc))
          if (without_[op][to][pc]) return true;
    return false;
  }
  const Program& program_;
  const Reach all_;
  std::vector<Reach> without_ = {};
};

Program random_program(Rng& rng) {
  Program program;
  const auto any = [&] { return static_cast<std::int64_t>(rng.below(kOps)); };
  for (std::size_t pc = 0; pc < kOps; ++pc) {
    Op& op = program.code.emplace_back();
    const auto kind = rng.below(16);
    op.fn = pc + 1 == kOps || kind == 0 ? control::exit_lanes
            : kind == 1 && any() < 5    ? control::trap
            : kind < 6                  ? control::branch_if
            : kind < 8                  ? control::branch
            : kind < 11                 ? control::nothing
                                        : control::pred_move;
    // Mostly ahead.
    op.imm = any();
    if (op.imm <= static_cast<std::int64_t>(pc) && rng.below(2) == 0) op.imm = any();
  }
  return program;
}

TEST(Ways, AreThoseThatAreLeftWhenOthersAreTakenAway) {
  int both[2] = {};
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng(seed);
    const Program program = random_program(rng);
    const Oracle oracle(program);
    for (std::uint32_t exchange = 0; exchange + 1 < kOps; ++exchange) {
      if (program.code[exchange].fn != control::pred_move) continue;
      for (std::uint32_t at = 0; at < kOps; ++at) {
        const bool went = went_on(program, exchange, at);
        ASSERT_EQ(went, oracle.went_on(exchange, at)) << seed << ' ' << exchange << ' ' << at;
        ++both[went];
      }
    }
  }
  EXPECT_GT(std::min(both[0], both[1]), 1000);
}

// A kernel as large as they come takes a moment: of squares of its ops it would be hours.
TEST(Ways, OfALargeKernelAreFollowedOnce) {
  constexpr std::uint32_t kPairs = 100'000;
  Program program;
  const auto add = [&](OpFn fn, std::int64_t to) {
    Op& op = program.code.emplace_back();
    op.fn = fn, op.imm = to;
  };
  add(control::pred_move, 0);
  for (std::uint32_t half = 0; half < 2; ++half) {  // which have nothing in common
    for (std::uint32_t i = 0; i < kPairs; ++i) {
      add(control::branch_if, std::int64_t{3} * i + 4 + half * (3 * kPairs + 1));
      add(control::pred_move, 0);
      add(control::head, 0);
    }
    add(control::exit_lanes, 0);
  }
  EXPECT_FALSE(went_on(program, 0, 3 * kPairs + 2));
  // A loop of as many ways back to its begin.
  program.code.clear();
  add(control::pred_move, 0);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    add(control::branch_if, 0);
    add(control::pred_move, 0);
  }
  add(control::exit_lanes, 0);
  EXPECT_TRUE(went_on(program, 0, 1));
}

}  // namespace
}  // namespace partita::ptx
