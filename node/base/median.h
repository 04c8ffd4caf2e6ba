// The median of measurements; of an even number the greater of the two in the middle.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace partita {

// At least one value.
template <class Value>
Value median(std::vector<Value> values) {
  CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace partita
