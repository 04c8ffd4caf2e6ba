// Frames of the link between gateway and workers: whatever decodes encodes to the same bytes, and
// a model that is let in has tensors that lie apart, inside its slot.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "base/check.h"
#include "serve/wire/frames.h"
#include "serve/wire/slot_trace.h"
#include "serve/wire/texts.h"
#include "target.h"

namespace {

namespace serve = partita::serve;

void check_layout(const partita::serve::ModelSpec& model) {
  const partita::serve::SlotLayout layout = slot_layout(model);
  if (model.kind == partita::serve::ModelKind::openai) return;
  std::size_t end = 0;
  const auto follow = [&](const auto& tensors, const auto& offsets) {
    CHECK(tensors.size() == offsets.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CHECK(offsets[i] >= end && offsets[i] % 64 == 0);
      end = offsets[i] + bytes_of(tensors[i]);
    }
  };
  follow(model.inputs, layout.inputs);
  follow(model.outputs, layout.outputs);
  CHECK(end <= layout.bytes && layout.bytes % 4096 == 0);
}

// What a slot says of its item's trace goes into the head of a request; what it says of text is
// looked at by the gateway.
void check_slot(std::span<const char> bytes) {
  std::array<char, serve::kSlotTraceBytes> place{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), place.size()), place.begin());
  const serve::SlotTrace trace = serve::read_slot_trace(place.data());
  CHECK((trace.parent + trace.state).find_first_of("\r\n") == std::string::npos);
  serve::write_slot_trace(place.data(), trace.parent, trace.state);
  CHECK(serve::read_slot_trace(place.data()) == trace);
  const serve::TensorSpec open{.name = "o", .shape = {2, serve::kOpen}, .open_bytes = 64};
  const auto values = serve::used_part(open, bytes);
  CHECK(!values || (values->size() <= 64 && values->size() % 8 == 0));
  const serve::TensorSpec words{
      .name = "w", .type = serve::DataType::bytes, .shape = {3}, .text_bytes = 64};
  const auto used = serve::used_part(words, bytes);
  CHECK(!used || used->size() <= bytes.size());
  int elements = 0;
  if (used) serve::each_text(*used, [&](std::string_view) { ++elements; });
  CHECK(elements == (used ? 3 : 0));
}

}  // namespace

FUZZ_TARGET(link_frame) {
  const std::span<const char> bytes(reinterpret_cast<const char*>(data), size);
  check_slot(bytes);
  const auto frame = partita::serve::decode(bytes);
  if (!frame) {
    CHECK(!frame.error().message.empty());
    return 0;
  }
  CHECK(partita::serve::encode(*frame) == std::string(bytes.begin(), bytes.end()));
  if (const auto* hello = std::get_if<partita::serve::Hello>(&*frame)) check_layout(hello->model);
  return 0;
}
