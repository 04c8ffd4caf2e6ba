#include "serve/worker/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"

namespace partita::serve {
namespace {

constexpr double kMostValue = 9e15;  // whole numbers that a double holds

std::string shape_text(const std::vector<std::int64_t>& whole) {
  std::vector<std::string> parts;
  for (const std::int64_t size : whole) parts.push_back(size < 0 ? "?" : std::to_string(size));
  return fmt::format("[{}]", joined(parts, ", "));
}

}  // namespace

Result<ChosenShapes> parse_shapes(const std::vector<std::string>& texts) {
  ChosenShapes chosen;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0)
      return bad_input("--input-shape", "'" + text + "': say INPUT=SIZES, as in tokens=128");
    std::vector<std::int64_t> shape;
    for (const std::string& part : split(std::string_view(text).substr(at + 1), ',')) {
      const bool open = part.ends_with('?');
      const auto size =
          part == "?" ? std::optional(1L) : parse_number<long>(part.substr(0, part.size() - open));
      if (!size || *size < 1) return bad_input("--input-shape", "'" + part + "' is no size");
      shape.push_back(open ? -*size : *size);
    }
    const std::string name = text.substr(0, at);
    if (!chosen.emplace(name, std::move(shape)).second)
      return bad_input("--input-shape", "'" + name + "' is given twice");
  }
  return chosen;
}

Result<ChosenAxes> parse_axes(const std::vector<std::string>& texts) {
  ChosenAxes chosen;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    const std::string axis = at == std::string::npos ? "" : text.substr(at + 1);
    const auto number = axis == "none" ? std::optional(kNoBatchAxis) : parse_number<int>(axis);
    const bool known = number && (*number >= 0 || axis == "none") && *number <= kMaxDimensions;
    if (!known || at == 0 || !chosen.emplace(text.substr(0, at), *number).second)
      return bad_input("--batch-axis", "'" + text + "': say INPUT=AXIS once, or INPUT=none");
  }
  return chosen;
}

Result<ChosenValues> parse_values(const std::vector<std::string>& texts) {
  ChosenValues chosen;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    const auto value = parse_number<double>(at == std::string::npos ? "" : text.substr(at + 1));
    const bool good = value && std::isfinite(*value) && std::abs(*value) < kMostValue;
    if (!good || at == 0 || !chosen.emplace(text.substr(0, at), *value).second)
      return bad_input("--value", "'" + text + "': say INPUT=NUMBER once, as in rate=16000");
  }
  return chosen;
}

Result<std::map<std::string, std::string>> parse_states(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> states;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size() ||
        !states.emplace(text.substr(0, at), text.substr(at + 1)).second)
      return bad_input("--carry", "'" + text + "': say INPUT=OUTPUT once, as in state=stateN");
  }
  return states;
}

Result<ItemShape> item_shape(const std::string& name, const std::vector<std::int64_t>& whole,
                             const ChosenShapes& chosen) {
  if (whole.empty()) return bad_input(name, "a scalar has no batch dimension");
  if (whole.size() > kMaxDimensions + 1) return bad_input(name, "too many dimensions");
  if (whole[0] == 0 || whole[0] > 1) {
    return bad_input(name, fmt::format("its first dimension is the batch and must be open, but it "
                                       "is {}; export the model with a dynamic batch",
                                       whole[0]));
  }
  ItemShape item{.shape = {whole.begin() + 1, whole.end()}, .batched = whole[0] < 0};
  if (const auto found = chosen.find(name); found != chosen.end()) {
    std::vector<std::int64_t> wanted = found->second;
    if (wanted.size() == whole.size() && wanted[0] == 1) wanted.erase(wanted.begin());
    bool fits = wanted.size() == item.shape.size();
    for (std::size_t i = 0; fits && i < wanted.size(); ++i)
      fits = wanted[i] > 0 && (item.shape[i] < 0 || item.shape[i] == wanted[i]);
    if (!fits)
      return bad_input("--input-shape",
                       fmt::format("'{}' is {} in the model", name, shape_text(whole)));
    item.shape = std::move(wanted);
  }
  if (std::ranges::any_of(item.shape, [](std::int64_t size) { return size < 0; })) {
    return bad_input(name, fmt::format("its shape {} is open beyond the batch; say the sizes of "
                                       "an item with --input-shape {}=...",
                                       shape_text(whole), name));
  }
  return item;
}

namespace {

// Holds what was chosen against what the model says; says what is usual.
Result<void> choose(TensorSpec& input, const std::vector<std::int64_t>& whole,
                    const InputWishes& wishes) {
  std::vector<std::int64_t> wanted(input.shape.size(), kOpen);
  if (const auto found = wishes.shapes.find(input.name); found != wishes.shapes.end()) {
    wanted = found->second;
    const auto axis = static_cast<std::size_t>(std::max(input.batch_axis, 0));
    if (input.batch_axis >= 0 && wanted.size() == whole.size() && wanted[axis] == 1)
      wanted.erase(wanted.begin() + input.batch_axis);
  }
  bool fits = wanted.size() == input.shape.size();
  for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
    const bool open = input.shape[i] < 0;
    fits = open || wanted[i] < 0 || wanted[i] == input.shape[i];
    if (open && wanted[i] > 0) input.shape[i] = wanted[i];
    const std::int64_t usual = wanted[i] < kOpen ? -wanted[i] : wishes.usual;
    input.usual.push_back(input.shape[i] < 0 ? usual : input.shape[i]);
  }
  if (!fits)
    return bad_input("--input-shape",
                     fmt::format("'{}' is {} in the model", input.name, shape_text(whole)));
  if (!is_open(input)) {
    input.usual.clear();
    return {};
  }
  if (input.type == DataType::bytes)
    return bad_input(input.name, fmt::format("its shape {} is open, and it is text; say the sizes "
                                             "of an item with --input-shape {}=...",
                                             shape_text(whole), input.name));
  input.open_bytes = wishes.open_bytes;
  return {};
}

}  // namespace

Result<std::vector<TensorSpec>> inputs_of(const std::vector<WholeTensor>& whole,
                                          const InputWishes& wishes) {
  const auto first = [](const WholeTensor& input) {
    return !input.shape.empty() && (input.shape[0] < 0 || input.shape[0] == 1);
  };
  const bool rows = wishes.rows && (std::ranges::any_of(whole, first) || !wishes.axes.empty());
  std::vector<TensorSpec> inputs;
  for (const WholeTensor& one : whole) {
    TensorSpec input{.name = one.name, .type = one.type, .shape = one.shape};
    input.batch_axis = kNoBatchAxis;
    const auto open = std::ranges::find_if(one.shape, [](std::int64_t size) { return size < 0; });
    if (rows && first(one))
      input.batch_axis = 0;
    else if (rows && open != one.shape.end())
      input.batch_axis = static_cast<int>(open - one.shape.begin());
    if (const auto axis = wishes.axes.find(one.name); rows && axis != wishes.axes.end())
      input.batch_axis = axis->second;
    if (input.batch_axis >= static_cast<int>(one.shape.size()))
      return bad_input("--batch-axis", fmt::format("'{}' is {}", one.name, shape_text(one.shape)));
    const auto value = wishes.values.find(one.name);
    input.usual_value = value == wishes.values.end() ? 0 : value->second;
    if (input.batch_axis >= 0) input.shape.erase(input.shape.begin() + input.batch_axis);
    TRY(choose(input, one.shape, wishes));
    inputs.push_back(std::move(input));
  }
  const auto known = [&](const char* flag, const auto& chosen) -> Result<void> {
    for (const auto& [name, what] : chosen)
      if (std::ranges::find(inputs, name, &TensorSpec::name) == inputs.end())
        return bad_input(flag, "the model has no input '" + name + "'");
    return {};
  };
  Result<void> all = known("--input-shape", wishes.shapes);
  if (all) all = known("--batch-axis", wishes.axes);
  if (all) all = known("--value", wishes.values);
  if (!all) return failed(all.error());
  return inputs;
}

bool takes_rows(const std::vector<WholeTensor>& whole, const std::vector<TensorSpec>& inputs) {
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].batch_axis == kNoBatchAxis) continue;
    any = true;
    if (whole[i].shape[static_cast<std::size_t>(inputs[i].batch_axis)] >= 0) return false;
  }
  return any;
}

}  // namespace partita::serve
