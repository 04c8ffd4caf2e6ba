// Frames of the link between gateway and workers: whatever decodes encodes to the same bytes, and
// a model that is let in has tensors that lie apart, inside its slot.
#include <cstdint>
#include <span>
#include <variant>

#include "base/check.h"
#include "serve/wire/frames.h"

namespace {

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const char> bytes(reinterpret_cast<const char*>(data), size);
  const auto frame = partita::serve::decode(bytes);
  if (!frame) {
    CHECK(!frame.error().message.empty());
    return 0;
  }
  CHECK(partita::serve::encode(*frame) == std::string(bytes.begin(), bytes.end()));
  if (const auto* hello = std::get_if<partita::serve::Hello>(&*frame)) check_layout(hello->model);
  return 0;
}
