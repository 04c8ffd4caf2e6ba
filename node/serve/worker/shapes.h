// Shapes of whole tensors, as models and servers tell them (batch first, -1 for what is open), made
// into shapes of one item. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace partita::serve {

// Sizes that people chose for inputs with open dimensions, by the input's name.
using ChosenShapes = std::map<std::string, std::vector<std::int64_t>>;

// "x=128" or "x=1,128" (with the batch in front, as 1) from --shape, added to `chosen`.
Result<ChosenShapes> parse_shapes(const std::vector<std::string>& texts);

struct ItemShape {
  std::vector<std::int64_t> shape;  // without the batch dimension
  bool batched = true;  // the batch dimension is open; false: it is 1, and so is every batch
};

// bad_input (context: `name`) for a scalar, for a batch dimension that is a number above 1, for
// sizes that contradict, and for dimensions that stay open, with a sentence that names --shape.
Result<ItemShape> item_shape(const std::string& name, const std::vector<std::int64_t>& whole,
                             const ChosenShapes& chosen);

}  // namespace partita::serve
