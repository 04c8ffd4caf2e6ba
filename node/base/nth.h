// The value at a place of what is sorted in part only; quick for places near the end, as those of
// high percentiles are. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace partita {

// Of at least place + 1 values, which are moved about. A sample says which ones are certainly
// below, nothing else.
template <class T>
T nth(std::vector<T>& values, std::size_t place) {
  constexpr std::size_t kEvery = 16;
  constexpr double kFurtherDown = 0.02;
  const auto exactly = [](std::vector<T>& of, std::size_t n) {
    const auto at = of.begin() + static_cast<std::ptrdiff_t>(n);
    std::nth_element(of.begin(), at, of.end());
    return *at;
  };
  std::vector<T> some;
  some.reserve(values.size() / kEvery + 1);
  for (std::size_t i = 0; i < values.size(); i += kEvery) some.push_back(values[i]);
  const double share = static_cast<double>(place) / static_cast<double>(values.size());
  const T floor = exactly(some, static_cast<std::size_t>(std::max(0.0, share - kFurtherDown) *
                                                         static_cast<double>(some.size() - 1)));
  std::vector<T> above;
  above.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(above),
               [&](const T& value) { return value >= floor; });
  const std::size_t below = values.size() - above.size();
  return place >= below ? exactly(above, place - below) : exactly(values, place);
}

}  // namespace partita
