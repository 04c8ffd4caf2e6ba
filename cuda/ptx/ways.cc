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
  // By op: where a way from `start` that does not go over `without` comes from there, which of the
  // start is itself; kNowhere: none does.
  std::vector<std::uint32_t> from(std::uint32_t start, std::uint32_t without = kNowhere) const {
    std::vector<std::uint32_t> before(program_.code.size(), kNowhere), open;
    const auto go = [&](std::uint32_t pc, std::uint32_t last) {
      if (pc == without || before[pc] != kNowhere) return;
      before[pc] = last;
      open.push_back(pc);
    };
    go(start, start);
    while (!open.empty()) {
      const std::uint32_t pc = open.back();
      open.pop_back();
      each_next(pc, [&](std::uint32_t to) { go(to, pc); });
    }
    return before;
  }
  bool leads(std::uint32_t start, std::uint32_t to) const { return from(start)[to] != kNowhere; }
  // An end among those; kNowhere: none.
  std::uint32_t end_of(const std::vector<std::uint32_t>& before) const {
    for (std::uint32_t pc = 0; pc < before.size(); ++pc)
      if (before[pc] != kNowhere && is_end(program_.code[pc])) return pc;
    return kNowhere;
  }
  // Whether `op` is on the ways from `start` to the end.
  bool goes_over(std::uint32_t op, std::uint32_t start) const {
    return end_of(from(start, op)) == kNowhere && leads(start, op);
  }
  bool is_real(std::uint32_t pc) const {
    const Op& op = program_.code[pc];
    return !is_end(op) && op.fn != control::head && op.fn != control::branch &&
           op.fn != control::nothing;
  }
  // The first op from there on that does something; kNowhere: the end comes before.
  std::uint32_t first_real(std::uint32_t pc) const {
    for (std::size_t most = program_.code.size(); most > 0 && !is_end(program_.code[pc]); --most) {
      if (is_real(pc)) return pc;
      each_next(pc, [&pc](std::uint32_t to) { pc = to; });
    }
    return kNowhere;
  }
  // Whether the loop around `exchange` can be gone round without going over `op`: whether anything
  // is left of what is behind the exchange and leads to it when all is taken away, again and again,
  // to which nothing leads.
  bool goes_round(std::uint32_t exchange, std::uint32_t op) const {
    const std::size_t size = program_.code.size();
    std::vector<std::uint32_t> behind = from(exchange + 1), ways_to(size), open;
    std::vector<std::vector<std::uint32_t>> back(size);
    for (std::uint32_t pc = 0; pc < size; ++pc)
      if (behind[pc] != kNowhere) each_next(pc, [&](std::uint32_t to) { back[to].push_back(pc); });
    std::vector<bool> around(size);
    for (open = {exchange}; !open.empty();) {
      const std::uint32_t pc = open.back();
      open.pop_back();
      if (around[pc]) continue;
      around[pc] = true;
      open.insert(open.end(), back[pc].begin(), back[pc].end());
    }
    around[op] = false;
    for (std::uint32_t pc = 0; pc < size; ++pc) {
      if (!around[pc]) continue;
      ways_to[pc] = static_cast<std::uint32_t>(
          std::ranges::count_if(back[pc], [&](std::uint32_t before) { return around[before]; }));
      if (ways_to[pc] == 0) open.push_back(pc);
    }
    while (!open.empty()) {
      const std::uint32_t pc = open.back();
      open.pop_back();
      around[pc] = false;
      each_next(pc, [&](std::uint32_t to) {
        if (around[to] && --ways_to[to] == 0) open.push_back(to);
      });
    }
    return std::ranges::count(around, true) > 0;
  }
  // Whether all ways from both to the end have an op in common that does something. It is on any
  // one way, and no way around it leads from what is before it to what is behind.
  bool meet(std::uint32_t one, std::uint32_t other) const {
    const std::vector<std::uint32_t> ahead = from(one);
    std::vector<std::uint32_t> way, place(ahead.size(), kNowhere), open{other};
    const std::uint32_t end = end_of(ahead);
    if (end == kNowhere || end_of(from(other)) == kNowhere) return false;
    for (std::uint32_t pc = end; way.empty() || way.back() != pc; pc = ahead[pc]) way.push_back(pc);
    std::ranges::reverse(way);
    for (std::uint32_t i = 0; i < way.size(); ++i) place[way[i]] = i;
    std::vector<bool> seen(ahead.size());
    std::size_t furthest = 0;
    for (std::size_t i = 0; i < way.size(); ++i) {
      while (!open.empty()) {
        const std::uint32_t pc = open.back();
        open.pop_back();
        if (seen[pc]) continue;
        seen[pc] = true;
        if (place[pc] != kNowhere)
          furthest = std::max<std::size_t>(furthest, place[pc]);
        else if (is_end(program_.code[pc]))
          return false;
        else
          each_next(pc, [&](std::uint32_t to) { open.push_back(to); });
      }
      if (furthest <= i && is_real(way[i])) return true;
      each_next(way[i], [&](std::uint32_t to) { open.push_back(to); });
    }
    return false;
  }

 private:
  const Program& program_;
};

}  // namespace

bool went_on(const Program& program, std::uint32_t exchange, std::uint32_t at) {
  const Ways ways(program);
  const std::uint32_t behind = exchange + 1, first = ways.first_real(at);
  if (first == kNowhere) return false;
  if (!ways.leads(behind, exchange)) return ways.meet(at, behind);
  return ways.leads(first, exchange) && ways.goes_over(first, behind) &&
         !ways.goes_round(exchange, first);
}

}  // namespace partita::ptx
