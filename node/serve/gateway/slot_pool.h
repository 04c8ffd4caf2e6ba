// The slots of one service: shared memory made for its model, and which slots are free. Owns the
// memory. A slot that a worker may still write to is not free, see core.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "serve/link/slot_memory.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

class SlotPool {
 public:
  // As many slots as fit into `memory_bytes`, at most `most`; at least one.
  static Result<SlotPool> make(const ModelSpec& model, std::size_t memory_bytes,
                               std::uint32_t most);

  std::optional<std::uint32_t> take();
  void give_back(std::uint32_t slot);
  bool has_room(std::size_t items) const { return free_.size() >= items; }
  bool unused() const { return free_.size() + free_apart() == memory_.slots(); }
  std::uint32_t slots() const { return memory_.slots(); }
  std::size_t free() const { return free_.size(); }
  // ---- slots that are set apart (joints.h): no take() gives them
  std::vector<std::uint32_t> set_apart(std::size_t count);  // of those that are free
  bool is_free_apart(std::uint32_t slot) const;
  void take_apart(std::uint32_t slot);                     // that is free
  void put_back(const std::vector<std::uint32_t>& slots);  // all free, among the others
  std::size_t apart() const { return apart_.size(); }
  std::size_t free_apart() const { return free_apart_; }
  // Of this pool and no other, as long as somebody has it.
  const std::shared_ptr<const int>& mark() const { return mark_; }

  const ModelSpec& model() const { return model_; }
  const SlotMemory& memory() const { return memory_; }
  SlotMemory& memory() { return memory_; }
  std::span<char> input(std::uint32_t slot, int tensor) const;
  std::span<char> output(std::uint32_t slot, int tensor) const;
  // What a worker is to read there: its inputs, trace and model.
  void copy_inputs(std::uint32_t from, std::uint32_t to);
  char* trace(std::uint32_t slot) const { return memory_.base(slot) + layout_.trace; }
  char* model_name(std::uint32_t slot) const { return memory_.base(slot) + layout_.model; }
  char* step(std::uint32_t slot) const { return memory_.base(slot) + layout_.step; }

 private:
  SlotPool(ModelSpec model, SlotLayout layout, SlotMemory memory);

  ModelSpec model_;
  SlotLayout layout_;
  SlotMemory memory_;
  std::map<std::uint32_t, bool> apart_;  // whether it is free
  std::size_t free_apart_ = 0;
  std::shared_ptr<const int> mark_ = std::make_shared<int>(0);
  std::vector<std::uint32_t> free_;  // the last one given back goes first: its pages are warm
};

}  // namespace partita::serve
