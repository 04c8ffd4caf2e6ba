// What a FakeBackend keeps of its own: arrays, textures and conditions. Copies are done at once. It
// checks what the contract promises (CHECK): live arrays and textures, copies inside.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/check.h"
#include "server/backend.h"

namespace partita::remote::server {

class FakeTextures final : public DeviceTextures {
 public:
  using Memory = std::function<std::span<std::byte>(std::uint64_t address, std::uint64_t bytes)>;
  explicit FakeTextures(Memory memory) : memory_(std::move(memory)) {}

  Answered<Id> create_array(const ArrayCreate& what) override {
    const std::size_t row = what.width * what.channels * what.channel_bytes;
    Array made{row, std::max<std::size_t>(what.height, 1), {}};
    made.bytes.resize(row * made.rows * std::max<std::size_t>(what.depth, 1));
    arrays_.emplace(++next_, std::move(made));
    return next_;
  }
  void destroy_array(Id array) override { CHECK(arrays_.erase(array) == 1); }
  Answered<void> copy(Id, Id array, const ArrayCopy& what) override {
    Array& texels = arrays_.at(array);
    for (std::uint64_t z = 0; z < what.slices; ++z) {
      for (std::uint64_t y = 0; y < what.rows; ++y) {
        const std::uint64_t row = (what.z + z) * texels.rows + what.y + y;
        CHECK(what.x + what.width <= texels.row && what.y + y < texels.rows &&
              row * texels.row + what.x + what.width <= texels.bytes.size());
        std::byte* const inside = texels.bytes.data() + row * texels.row + what.x;
        std::byte* const memory =
            memory_(what.memory.value + (z * what.slice_rows + y) * what.pitch, what.width).data();
        std::memcpy(what.out != 0 ? memory : inside, what.out != 0 ? inside : memory, what.width);
      }
    }
    return {};
  }
  Answered<std::uint64_t> create(const TextureCreate& what, Id array) override {
    CHECK(array != 0 ? arrays_.contains(array) : what.array.value == 0);
    textures_.insert(++next_);
    return next_;
  }
  void destroy(std::uint64_t texture) override { CHECK(textures_.erase(texture) == 1); }
  std::size_t count() const { return arrays_.size() + textures_.size(); }

 private:
  struct Array {
    std::size_t row = 0, rows = 0;
    std::vector<std::byte> bytes = {};
  };
  Memory memory_;
  std::map<Id, Array> arrays_;
  std::set<std::uint64_t> textures_;
  Id next_ = 0;
};

// A condition has its value until somebody has looked at it, then 0: no kernel here sets one.
class FakeConditions final : public DeviceConditions {
 public:
  Answered<Id> create_set() override {
    sets_[++next_];
    return next_;
  }
  Answered<std::uint64_t> add(Id set, std::uint32_t value, bool) override {
    const std::uint64_t number = std::uint64_t{set} << 32 | sets_.at(set).size();
    sets_.at(set).push_back(value);
    values_[number] = value;
    return number;
  }
  void destroy_set(Id set) override { CHECK(sets_.erase(set) == 1); }
  std::uint32_t look(std::uint64_t condition) { return std::exchange(values_.at(condition), 0); }
  std::size_t count() const { return sets_.size(); }

 private:
  std::map<Id, std::vector<std::uint32_t>> sets_;
  std::map<std::uint64_t, std::uint32_t> values_;  // graphs outlive their set
  Id next_ = 0;
};

// A device that has both.
class FakeKeeper : public DeviceBackend {
 public:
  explicit FakeKeeper(FakeTextures::Memory memory) : textures_(std::move(memory)) {}
  DeviceTextures* textures() override { return &textures_; }
  DeviceConditions* conditions() override { return &conditions_; }
  Answered<void> limit_heap(std::uint64_t bytes) override {
    return heap_ = bytes, Answered<void>();
  }
  std::uint64_t heap() const { return heap_; }

 protected:
  FakeTextures textures_;
  FakeConditions conditions_ = {};
  std::uint64_t heap_ = kHeapBytes;
};

}  // namespace partita::remote::server
