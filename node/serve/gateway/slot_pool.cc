#include "serve/gateway/slot_pool.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/index.h"
#include "serve/wire/slot_trace.h"

namespace partita::serve {

SlotPool::SlotPool(ModelSpec model, SlotLayout layout, SlotMemory memory)
    : model_(std::move(model)), layout_(std::move(layout)), memory_(std::move(memory)) {
  free_.reserve(memory_.slots());
  for (std::uint32_t slot = memory_.slots(); slot-- > 0;) free_.push_back(slot);
}

Result<SlotPool> SlotPool::make(const ModelSpec& model, std::size_t memory_bytes,
                                std::uint32_t most) {
  SlotLayout layout = slot_layout(model);
  const auto slots =
      static_cast<std::uint32_t>(std::clamp<std::size_t>(memory_bytes / layout.bytes, 1, most));
  SlotMemory memory = TRY(SlotMemory::create(layout.bytes, slots));
  return SlotPool(model, std::move(layout), std::move(memory));
}

std::optional<std::uint32_t> SlotPool::take() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::give_back(std::uint32_t slot) {
  CHECK(slot < memory_.slots() && free_.size() < memory_.slots());
  if (const auto found = apart_.find(slot); found != apart_.end()) {
    CHECK(!std::exchange(found->second, true));
    ++free_apart_;
    return;
  }
  free_.push_back(slot);
}

std::vector<std::uint32_t> SlotPool::set_apart(std::size_t count) {
  CHECK(count <= free_.size());
  const auto first = free_.begin() + static_cast<std::ptrdiff_t>(free_.size() - count);
  std::vector<std::uint32_t> slots(first, free_.end());
  free_.erase(first, free_.end());
  for (const std::uint32_t slot : slots) apart_.emplace(slot, true);
  free_apart_ += count;
  return slots;
}

bool SlotPool::is_free_apart(std::uint32_t slot) const {
  const auto found = apart_.find(slot);
  return found != apart_.end() && found->second;
}

void SlotPool::take_apart(std::uint32_t slot) {
  CHECK(std::exchange(apart_.at(slot), false));
  --free_apart_;
}

void SlotPool::put_back(const std::vector<std::uint32_t>& slots) {
  for (const std::uint32_t slot : slots) {
    CHECK(is_free_apart(slot));
    apart_.erase(slot);
    --free_apart_;
    free_.push_back(slot);
  }
}

void SlotPool::copy_inputs(std::uint32_t from, std::uint32_t to) {
  const std::size_t inputs = layout_.outputs.empty() ? layout_.trace : layout_.outputs.front();
  std::memcpy(memory_.base(to), memory_.base(from), inputs);
  std::memcpy(trace(to), trace(from), kSlotTraceBytes);
  if (model_.set) std::memcpy(model_name(to), model_name(from), kSlotModelBytes);
}

std::span<char> SlotPool::input(std::uint32_t slot, int tensor) const {
  const std::size_t size =
      model_.kind == ModelKind::openai ? 8 + kOpenaiBodyBytes : bytes_of(model_.inputs[at(tensor)]);
  return {memory_.base(slot) + layout_.inputs[at(tensor)], size};
}

std::span<char> SlotPool::output(std::uint32_t slot, int tensor) const {
  return {memory_.base(slot) + layout_.outputs[at(tensor)], bytes_of(model_.outputs[at(tensor)])};
}

}  // namespace partita::serve
