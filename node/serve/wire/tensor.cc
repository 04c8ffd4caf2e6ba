#include "serve/wire/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>

#include "base/unicode.h"
#include "serve/wire/frames.h"
#include "serve/wire/slot_trace.h"

namespace partita::serve {
namespace {

struct TypeRow {
  std::string_view name;
  std::size_t bytes;
};
// In the order of DataType.
constexpr std::array<TypeRow, kDataTypes> kTypes = {{{"BOOL", 1},
                                                     {"UINT8", 1},
                                                     {"UINT16", 2},
                                                     {"UINT32", 4},
                                                     {"UINT64", 8},
                                                     {"INT8", 1},
                                                     {"INT16", 2},
                                                     {"INT32", 4},
                                                     {"INT64", 8},
                                                     {"FP16", 2},
                                                     {"FP32", 4},
                                                     {"FP64", 8},
                                                     {"BF16", 2},
                                                     {"BYTES", 4}}};
constexpr std::size_t kTensorAlign = 64;

constexpr std::size_t up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// What is wrong with its sizes, or where its rows lie.
std::string open_fault(const TensorSpec& tensor) {
  const auto good = [](std::int64_t size) { return size >= 1 || size == kOpen; };
  if (!std::ranges::all_of(tensor.shape, good)) return "has a dimension below 1";
  const bool open = is_open(tensor), text = tensor.type == DataType::bytes;
  if (open != (tensor.open_bytes > 0)) return "has room for open sizes without them, or none";
  const int rank = static_cast<int>(tensor.shape.size());
  if (tensor.batch_axis < kNoBatchAxis || tensor.batch_axis > rank)
    return "has its rows on an axis that is none";
  if (text && (open || tensor.batch_axis > 0)) return "is text: its sizes are fixed, rows first";
  if (tensor.usual.empty()) return "";
  bool fits = open && tensor.usual.size() == tensor.shape.size();
  std::size_t bytes = size_of(tensor.type);
  for (std::size_t i = 0; fits && i < tensor.usual.size(); ++i) {
    const std::int64_t size = tensor.usual[i];
    fits = size >= 1 && (tensor.shape[i] == kOpen || tensor.shape[i] == size) &&
           !__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes) &&
           bytes <= tensor.open_bytes;
  }
  return fits ? "" : "has usual sizes that do not fit it";
}

std::string tensors_fault(const std::vector<TensorSpec>& tensors, std::string_view side) {
  if (tensors.empty() || tensors.size() > kMaxTensors)
    return fmt::format("{} {}s; a model has 1 to {}", tensors.size(), side, kMaxTensors);
  std::set<std::string_view> names;
  std::size_t total = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::string fault = name_fault(tensor.name);
    if (!fault.empty()) return fmt::format("the name of an {} {}", side, fault);
    if (!names.insert(tensor.name).second)
      return fmt::format("two {}s are called '{}'", side, tensor.name);
    if (static_cast<int>(tensor.type) >= kDataTypes)
      return fmt::format("{} '{}' has no known data type", side, tensor.name);
    if (tensor.shape.size() > kMaxDimensions) {
      return fmt::format("{} '{}' has {} dimensions; at most {} fit", side, tensor.name,
                         tensor.shape.size(), kMaxDimensions);
    }
    const std::string open = open_fault(tensor);
    if (!open.empty()) return fmt::format("{} '{}' {}", side, tensor.name, open);
    if ((tensor.type == DataType::bytes) != (tensor.text_bytes > 0)) {
      return fmt::format("{} '{}': room for text is what BYTES has, and nothing else", side,
                         tensor.name);
    }
    const std::size_t bytes = bytes_of(tensor);
    if (bytes > kMaxItemBytes || (total += up(bytes, kTensorAlign)) > kMaxItemBytes)
      return fmt::format("the {}s of one item take more than {} MiB", side, kMaxItemBytes >> 20);
  }
  return "";
}

std::string model_fault(const ModelSpec& model) {
  std::string fault = name_fault(model.name);
  if (!fault.empty()) return "the model's name " + fault;
  fault = name_fault(model.platform);
  if (!fault.empty()) return "the platform " + fault;
  fault = name_fault(model.version);
  if (!fault.empty()) return "the version " + fault;
  if (model.max_batch < 1 || model.max_batch > kMaxLinkBatch)
    return fmt::format("largest batch {}; it is 1 to {}", model.max_batch, kMaxLinkBatch);
  if (model.kind == ModelKind::openai) {
    const bool none = model.inputs.empty() && model.outputs.empty();
    return none ? model.set ? "an openai model is in no set" : ""
                : "an openai model has no tensors";
  }
  if (model.set && model.sequences) return "models with state are in no set";
  if (model.kind != ModelKind::tensors) return "a model of no known kind";
  fault = tensors_fault(model.inputs, "input");
  if (fault.empty()) fault = tensors_fault(model.outputs, "output");
  if (!fault.empty()) return fault;
  for (const TensorSpec& input : model.inputs)
    if (is_open(input) && input.usual.empty()) return "no usual sizes of '" + input.name + "'";
  const auto rows = [](const TensorSpec& tensor) { return tensor.batch_axis != kNoBatchAxis; };
  const bool in = std::ranges::any_of(model.inputs, rows);
  const bool out = in ? std::ranges::all_of(model.outputs, rows)
                      : std::ranges::none_of(model.outputs, rows) && model.max_batch == 1;
  return out ? "" : "rows that go in and do not come out, or the other way round";
}

}  // namespace

std::string_view name_of(DataType type) { return kTypes.at(static_cast<std::size_t>(type)).name; }

std::size_t size_of(DataType type) { return kTypes.at(static_cast<std::size_t>(type)).bytes; }

Result<DataType> parse_data_type(const std::string& context, std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes.at(i).name == name) return static_cast<DataType>(i);
  }
  const std::string shown = elided(name, 40, [](char32_t c) -> double { return columns(c); });
  return bad_input(context, fmt::format("'{}' is no data type", shown));
}

bool is_open(const TensorSpec& tensor) {
  return std::ranges::find(tensor.shape, kOpen) != tensor.shape.end();
}

bool has_rows(const ModelSpec& model) {
  return std::ranges::any_of(
      model.inputs, [](const TensorSpec& tensor) { return tensor.batch_axis != kNoBatchAxis; });
}

std::size_t head_bytes(const TensorSpec& tensor) {
  return is_open(tensor) ? up(tensor.shape.size() * sizeof(std::int64_t), kTensorAlign) : 0;
}

std::int64_t elements_of(const TensorSpec& tensor) {
  if (is_open(tensor)) return static_cast<std::int64_t>(tensor.open_bytes / size_of(tensor.type));
  std::int64_t product = 1;
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(product, size, &product))
      return std::numeric_limits<std::int64_t>::max();
  }
  return product;
}

std::size_t bytes_of(const TensorSpec& tensor) {
  std::size_t bytes = 0;
  if (tensor.open_bytes > 0) {
    return __builtin_add_overflow(tensor.open_bytes, head_bytes(tensor), &bytes)
               ? std::numeric_limits<std::size_t>::max()
               : bytes;
  }
  const auto elements = static_cast<std::size_t>(elements_of(tensor));
  const bool over = __builtin_mul_overflow(elements, size_of(tensor.type), &bytes) ||
                    __builtin_add_overflow(bytes, tensor.text_bytes, &bytes);
  return over ? std::numeric_limits<std::size_t>::max() : bytes;
}

void give_text_room(ModelSpec& model, std::size_t text_bytes) {
  for (auto* tensors : {&model.inputs, &model.outputs})
    for (TensorSpec& tensor : *tensors)
      if (tensor.type == DataType::bytes) tensor.text_bytes = text_bytes;
}

Result<void> check_model(const std::string& context, const ModelSpec& model) {
  std::string fault = model_fault(model);
  if (fault.empty()) return {};
  return bad_input(context, std::move(fault));
}

SlotLayout slot_layout(const ModelSpec& model) {
  SlotLayout layout;
  std::size_t at = 0;
  if (model.kind == ModelKind::openai) {
    layout.inputs = {0};
    at = up(sizeof(std::uint64_t) + kOpenaiBodyBytes, kTensorAlign);
  }
  const auto place = [&](const TensorSpec& tensor) {
    const std::size_t bytes = bytes_of(tensor);
    const std::size_t align = bytes >= kJointBytes ? kSlotPage : kTensorAlign;
    const std::size_t begins = up(at, align);
    at = up(begins + bytes, align);
    return begins;
  };
  for (const TensorSpec& tensor : model.inputs) layout.inputs.push_back(place(tensor));
  for (const TensorSpec& tensor : model.outputs) layout.outputs.push_back(place(tensor));
  layout.trace = at;
  layout.step = up(at + kSlotTraceBytes, kTensorAlign);
  layout.model = layout.step + kSlotStepBytes;
  layout.bytes = up(layout.model + (model.set ? kSlotModelBytes : 0), kSlotPage);
  return layout;
}

void write_slot_step(char* place, const SlotStep& step) {
  std::memcpy(place, &step.sequence, sizeof step.sequence);
  place[8] = static_cast<char>((step.begins ? 1 : 0) + (step.ends ? 2 : 0));
}

bool fits_slot_model(std::string_view name) { return name.size() < kSlotModelBytes; }

void write_slot_model(char* place, std::string_view name) {
  std::memcpy(place, name.data(), name.size());
  place[name.size()] = '\0';
}

std::string_view read_slot_model(const char* place) {
  return {place, ::strnlen(place, kSlotModelBytes)};
}

SlotStep read_slot_step(const char* place) {
  SlotStep step;
  std::memcpy(&step.sequence, place, sizeof step.sequence);
  step.begins = (place[8] & 1) != 0;
  step.ends = (place[8] & 2) != 0;
  return step;
}

}  // namespace partita::serve
