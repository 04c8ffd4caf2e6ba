#include "serve/worker/ort_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partita::serve {
namespace {

using ort::Slot;

struct ElementRow {
  ort::Element element;
  DataType type;
};
constexpr std::array<ElementRow, kDataTypes> kElements = {
    {{ort::Element::float32, DataType::fp32},
     {ort::Element::uint8, DataType::uint8},
     {ort::Element::int8, DataType::int8},
     {ort::Element::uint16, DataType::uint16},
     {ort::Element::int16, DataType::int16},
     {ort::Element::int32, DataType::int32},
     {ort::Element::int64, DataType::int64},
     {ort::Element::boolean, DataType::boolean},
     {ort::Element::float16, DataType::fp16},
     {ort::Element::float64, DataType::fp64},
     {ort::Element::uint32, DataType::uint32},
     {ort::Element::uint64, DataType::uint64},
     {ort::Element::bfloat16, DataType::bf16},
     {ort::Element::string, DataType::bytes}}};

ort::Element element_of(DataType type) {
  return std::ranges::find(kElements, type, &ElementRow::type)->element;
}

struct Side {  // of a session: its inputs, or its outputs
  Slot count, type, name;
};
constexpr Side kInputs = {Slot::input_count, Slot::input_type, Slot::input_name};
constexpr Side kOutputs = {Slot::output_count, Slot::output_type, Slot::output_name};

Result<std::string> name_of_tensor(const OrtObjects& objects, const ort::Session& session,
                                   Slot slot, std::size_t index) {
  const OrtLibrary& library = objects.library();
  ort::Allocator* allocator = nullptr;
  char* text = nullptr;
  TRY(library.ask<ort::DefaultAllocator>(Slot::default_allocator, &allocator));
  TRY(library.ask<ort::NameOf>(slot, &session, index, allocator, &text));
  const std::string name = text;
  static_cast<void>(library.ask<ort::AllocatorFree>(Slot::allocator_free, allocator, text));
  return name;
}

Result<std::vector<WholeTensor>> tensors_of(const OrtObjects& objects, const ort::Session& session,
                                            const Side& side) {
  const OrtLibrary& library = objects.library();
  std::size_t count = 0;
  TRY(library.ask<ort::Count>(side.count, &session, &count));
  std::vector<WholeTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = TRY(name_of_tensor(objects, session, side.name, i));
    ort::TypeInfo* type = nullptr;
    TRY(library.ask<ort::TypeOf>(side.type, &session, i, &type));
    const auto owned = objects.own(type, Slot::release_type_info);
    const ort::TensorInfo* info = nullptr;  // part of the type
    TRY(library.ask<ort::CastToTensorInfo>(Slot::cast_to_tensor_info, type, &info));
    if (info == nullptr) return bad_input(name, "it is no tensor");
    WholeTensor tensor = TRY(objects.described(std::move(name), info));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

Result<OrtOwned<ort::Value>> OrtObjects::tensor(const ort::MemoryInfo& memory,
                                                const TensorSpec& spec, Sizes sizes,
                                                std::size_t rows, char* data) const {
  const auto shape = whole_shape(spec, sizes, static_cast<std::int64_t>(rows));
  std::size_t bytes = size_of(spec.type);
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  ort::Value* value = nullptr;
  TRY(library_.ask<ort::CreateTensorWithData>(Slot::create_tensor_with_data, &memory, data, bytes,
                                              shape.data(), shape.size(), element_of(spec.type),
                                              &value));
  return own(value, Slot::release_value);
}

Result<WholeTensor> OrtObjects::described(std::string name, const ort::TensorInfo* info) const {
  ort::Element element{};
  std::size_t rank = 0;
  TRY(library_.ask<ort::ElementType>(Slot::element_type, info, &element));
  TRY(library_.ask<ort::DimensionsCount>(Slot::dimensions_count, info, &rank));
  WholeTensor tensor{.name = std::move(name), .shape = std::vector<std::int64_t>(rank)};
  TRY(library_.ask<ort::Dimensions>(Slot::dimensions, info, tensor.shape.data(), rank));
  const auto* row = std::ranges::find(kElements, element, &ElementRow::element);
  if (row == kElements.end()) return bad_input(tensor.name, "its data type cannot be served");
  if (row->type == DataType::bytes && !library_.takes_text()) {
    return environment_error(
        tensor.name, fmt::format("text (BYTES) needs ONNX Runtime 1.{}", ort::kTextVersion));
  }
  tensor.type = row->type;
  return tensor;
}

Result<WholeTensor> OrtObjects::described(std::string name, const ort::Value& value) const {
  ort::TensorInfo* info = nullptr;
  TRY(library_.ask<ort::TensorInfoOfValue>(Slot::tensor_info_of_value, &value, &info));
  const auto owned = own(info, Slot::release_tensor_info);
  return described(std::move(name), info);
}

Result<std::vector<WholeTensor>> model_inputs(const OrtObjects& objects,
                                              const ort::Session& session) {
  return tensors_of(objects, session, kInputs);
}

Result<std::vector<WholeTensor>> model_outputs(const OrtObjects& objects,
                                               const ort::Session& session) {
  return tensors_of(objects, session, kOutputs);
}

}  // namespace partita::serve
