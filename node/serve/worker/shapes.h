// Shapes of whole tensors, as models and servers tell them (-1 for what is open), made into shapes
// of one item. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

// Sizes that people chose for inputs with open dimensions, by the input's name. -n: it stays open,
// and n is usual; kOpen: it stays open.
using ChosenShapes = std::map<std::string, std::vector<std::int64_t>>;

// "x=128" or "x=1,128" (batch in front, as 1) from --input-shape; "x=3,640?,?" leaves sizes open.
Result<ChosenShapes> parse_shapes(const std::vector<std::string>& texts);

// Where rows lie in inputs, by name: "state=1", "sr=none" from --batch-axis.
using ChosenAxes = std::map<std::string, int>;
Result<ChosenAxes> parse_axes(const std::vector<std::string>& texts);

struct ItemShape {
  std::vector<std::int64_t> shape;  // without the batch dimension
  bool batched = true;  // the batch dimension is open; false: it is 1, and so is every batch
};

// bad_input (context: `name`) for a scalar, for a batch dimension that is a number above 1, for
// sizes that contradict, and for dimensions that stay open; the sentence names --input-shape.
Result<ItemShape> item_shape(const std::string& name, const std::vector<std::int64_t>& whole,
                             const ChosenShapes& chosen);

// Usual values of inputs, by name: "sr=16000" from --value.
using ChosenValues = std::map<std::string, double>;
Result<ChosenValues> parse_values(const std::vector<std::string>& texts);

// Inputs and the outputs that they are fed with: "state=stateN" from --carry.
Result<std::map<std::string, std::string>> parse_states(const std::vector<std::string>& texts);

// A tensor as a model has it.
struct WholeTensor {
  std::string name;
  DataType type = DataType::fp32;
  std::vector<std::int64_t> shape = {};
};

struct InputWishes {
  const ChosenShapes& shapes;
  const ChosenAxes& axes;
  const ChosenValues& values;
  bool rows = true;         // false: no input has a batch axis
  std::int64_t usual = 32;  // of open sizes of which nobody says more
  std::size_t open_bytes = kOpenBytes;
};
// The model's inputs, item by item. The batch axis is the first where that is open or 1; of others
// the first open one; none is an input that all items share. bad_input for choices that do not
// fit, for text with open sizes, and for usual sizes beyond the room.
Result<std::vector<TensorSpec>> inputs_of(const std::vector<WholeTensor>& whole,
                                          const InputWishes& wishes);
// More than one row at a time: all batch axes are open.
bool takes_rows(const std::vector<WholeTensor>& whole, const std::vector<TensorSpec>& inputs);

}  // namespace partita::serve
