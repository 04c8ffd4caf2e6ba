// Where a sequence begins to repeat itself to its end: the borders of requests in a record of
// kernels. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace partita {

inline constexpr std::size_t kLongestRepeat = 4096;

// The ends of the parts: the first one is where the repeating begins (0: at once). The shortest
// period at which at least half of the sequence, and three whole periods, repeat; empty: none does.
template <class Value>
std::vector<std::size_t> repeats(const std::vector<Value>& all) {
  std::vector<std::size_t> ends;
  for (std::size_t period = 1; period <= std::min(all.size() / 3, kLongestRepeat); ++period) {
    std::size_t begin = all.size() - period;
    while (begin > 0 && all[begin - 1] == all[begin - 1 + period]) --begin;
    if (all.size() - begin < std::max(3 * period, all.size() / 2)) continue;
    for (std::size_t end = begin; end <= all.size(); end += period) ends.push_back(end);
    return ends;
  }
  return ends;
}

}  // namespace partita
