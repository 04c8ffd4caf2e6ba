#include "ptx/ways.h"

#include <algorithm>
#include <vector>

#include "ptx/control.h"

namespace partita::ptx {
namespace {

constexpr std::uint32_t kNowhere = ~0u;

bool is_end(const Op& op) {
  return op.fn == control::exit_lanes || (op.fn == control::ret && op.imm < 0);
}

class Ways {
 public:
  explicit Ways(const Program& program) : program_(program) {}

  void each_next(std::uint32_t pc, const auto& go) const {
    const Op& op = program_.code[pc];
    if (is_end(op) || op.fn == control::trap) return;
    if (op.fn == control::branch_table) {
      std::ranges::for_each(program_.tables[static_cast<std::size_t>(op.imm)], go);
      return;
    }
    const bool jumps = op.fn == control::branch;
    if (jumps || op.fn == control::branch_if) go(static_cast<std::uint32_t>(op.imm));
    if (!jumps) go(pc + 1);
  }
  // By op: where a way from one of `starts` that does not go over `without` comes from there, which
  // of a start is itself; kNowhere: none does.
  std::vector<std::uint32_t> from(const std::vector<std::uint32_t>& starts,
                                  std::uint32_t without = kNowhere) const {
    std::vector<std::uint32_t> before(program_.code.size(), kNowhere), open;
    const auto go = [&](std::uint32_t pc, std::uint32_t last) {
      if (pc == without || before[pc] != kNowhere) return;
      before[pc] = last;
      open.push_back(pc);
    };
    for (const std::uint32_t pc : starts) go(pc, pc);
    while (!open.empty()) {
      const std::uint32_t pc = open.back();
      open.pop_back();
      each_next(pc, [&](std::uint32_t to) { go(to, pc); });
    }
    return before;
  }
  bool leads(const std::vector<std::uint32_t>& starts, std::uint32_t to,
             std::uint32_t without = kNowhere) const {
    return from(starts, without)[to] != kNowhere;
  }
  // An end among those; kNowhere: none.
  std::uint32_t end_of(const std::vector<std::uint32_t>& before) const {
    for (std::uint32_t pc = 0; pc < before.size(); ++pc)
      if (before[pc] != kNowhere && is_end(program_.code[pc])) return pc;
    return kNowhere;
  }
  // Whether `op` is on the ways from all starts to the end.
  bool all_go_over(std::uint32_t op, const std::vector<std::uint32_t>& starts) const {
    return end_of(from(starts, op)) == kNowhere &&
           std::ranges::all_of(starts, [&](std::uint32_t pc) { return leads({pc}, op); });
  }
  // The first op from there on that does something; kNowhere: the end comes before.
  std::uint32_t first_real(std::uint32_t pc) const {
    for (std::size_t most = program_.code.size(); most > 0; --most) {
      const Op& op = program_.code[pc];
      if (is_end(op)) return kNowhere;
      if (op.fn != control::head && op.fn != control::branch && op.fn != control::nothing)
        return pc;
      each_next(pc, [&pc](std::uint32_t to) { pc = to; });
    }
    return kNowhere;
  }
  // Whether the loop around `exchange` can be gone round without going over `op`.
  bool goes_round(std::uint32_t exchange, std::uint32_t op) const {
    const std::vector<std::uint32_t> behind = from({exchange + 1});
    bool round = false;
    for (std::uint32_t pc = 0; pc < behind.size(); ++pc)
      if (behind[pc] != kNowhere)
        each_next(pc, [&](std::uint32_t to) {
          round = round || (to <= pc && leads({to}, pc, op) && leads({to}, exchange));
        });
    return round;
  }

 private:
  const Program& program_;
};

}  // namespace

bool went_on(const Program& program, std::uint32_t exchange, std::uint32_t at) {
  const Ways ways(program);
  const std::uint32_t behind = exchange + 1, first = ways.first_real(at);
  if (first == kNowhere) return false;
  if (ways.leads({behind}, exchange))
    return ways.leads({first}, exchange) && ways.all_go_over(first, {behind}) &&
           !ways.goes_round(exchange, first);
  // What all go over is on any one way, and where ways meet there is a head.
  const std::vector<std::uint32_t> ahead = ways.from({at});
  std::uint32_t pc = ways.end_of(ahead);
  for (bool is_start = pc == kNowhere; !is_start; pc = ahead[pc]) {
    is_start = ahead[pc] == pc;
    if (!is_start && program.code[pc - 1].fn != control::head) continue;
    const std::uint32_t op = ways.first_real(pc);
    if (op != kNowhere && ways.all_go_over(op, {behind, at})) return true;
  }
  return false;
}

}  // namespace partita::ptx
