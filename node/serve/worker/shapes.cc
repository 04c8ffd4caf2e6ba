#include "serve/worker/shapes.h"

#include <fmt/format.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "serve/wire/tensor.h"

namespace partita::serve {
namespace {

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
    if (at == std::string::npos || at == 0) {
      return bad_input("--shape", "'" + text + "': say INPUT=SIZES, as in tokens=128");
    }
    std::vector<std::int64_t> shape;
    for (const std::string& part : split(std::string_view(text).substr(at + 1), ',')) {
      const auto size = parse_number<long>(part);
      if (!size || *size < 1) return bad_input("--shape", "'" + part + "' is no size");
      shape.push_back(*size);
    }
    const std::string name = text.substr(0, at);
    if (!chosen.emplace(name, std::move(shape)).second) {
      return bad_input("--shape", "'" + name + "' is given twice");
    }
  }
  return chosen;
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
    for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
      fits = item.shape[i] < 0 || item.shape[i] == wanted[i];
    }
    if (!fits) {
      return bad_input("--shape", fmt::format("'{}' is {} in the model", name, shape_text(whole)));
    }
    item.shape = std::move(wanted);
  }
  if (std::ranges::any_of(item.shape, [](std::int64_t size) { return size < 0; })) {
    return bad_input(name, fmt::format("its shape {} is open beyond the batch; say the sizes of "
                                       "an item with --shape {}=...",
                                       shape_text(whole), name));
  }
  return item;
}

}  // namespace partita::serve
