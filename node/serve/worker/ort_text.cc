#include "serve/worker/ort_text.h"

#include <cstring>
#include <string>

#include "serve/wire/items.h"
#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

using ort::Slot;

}  // namespace

Result<OrtOwned<ort::Value>> text_value(const OrtLibrary& library, const TensorSpec& tensor,
                                        std::span<const std::span<const char>> rows) {
  ort::Allocator* allocator = nullptr;
  TRY(library.ask<ort::DefaultAllocator>(Slot::default_allocator, &allocator));
  const auto shape = whole_shape(tensor, tensor.shape, static_cast<std::int64_t>(rows.size()));
  ort::Value* made = nullptr;
  TRY(library.ask<ort::CreateTensor>(Slot::create_tensor, allocator, shape.data(), shape.size(),
                                     ort::Element::string, &made));
  OrtOwned<ort::Value> value(made, {library.call<ort::Release<ort::Value>>(Slot::release_value)});
  std::size_t index = 0;
  Result<void> put;
  for (const std::span<const char> row : rows) {
    const auto used = used_part(tensor, row);
    if (!used) return bad_input(tensor.name, "input is not valid text");
    each_text(*used, [&](std::string_view text) {
      char* room = nullptr;
      if (!put) return;
      put = library.ask<ort::ResizedText>(Slot::resized_text, made, index++, text.size(), &room);
      if (put && !text.empty()) std::memcpy(room, text.data(), text.size());
    });
  }
  if (!put) return failed(put.error());
  return value;
}

Result<std::vector<std::size_t>> read_text_value(const OrtLibrary& library, const ort::Value& value,
                                                 const TensorSpec& tensor,
                                                 std::span<const std::span<char>> rows) {
  std::size_t bytes = 0;
  TRY(library.ask<ort::TextBytes>(Slot::text_bytes, &value, &bytes));
  const auto elements = rows.size() * static_cast<std::size_t>(elements_of(tensor));
  std::string text(bytes, '\0');
  std::vector<std::size_t> begins(elements);
  TRY(library.ask<ort::TextContent>(Slot::text_content, &value, text.data(), bytes, begins.data(),
                                    elements));
  begins.push_back(bytes);
  std::size_t next = 0;
  return fill_texts(
      [&] {
        const std::size_t begin = begins[next++];
        return std::optional(std::string_view(text).substr(begin, begins[next] - begin));
      },
      tensor, rows);
}

}  // namespace partita::serve
