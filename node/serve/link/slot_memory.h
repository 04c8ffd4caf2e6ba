// SlotMemory: the slots that tensors lie in, one memfd shared by the gateway and its workers. The
// gateway makes it and seals its size; a worker maps it only when it is sealed and as large as was
// said, so that touching a slot can never fail (SIGBUS) whatever the other side does. Owns mapping
// and descriptor. Memory is taken from the machine when a slot is first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/descriptor.h"
#include "base/result.h"
#include "serve/wire/frames.h"

namespace partita::serve {

class SlotMemory {
 public:
  // Gateway. Sizes as in the REGION frame; ErrorCode::environment where memory is short.
  static Result<SlotMemory> create(std::uint64_t slot_bytes, std::uint32_t slots);
  // Worker: the descriptor that came beside REGION. bad_input when it is not what REGION says.
  static Result<SlotMemory> attach(Descriptor fd, std::uint64_t slot_bytes, std::uint32_t slots);
  ~SlotMemory();
  SlotMemory(SlotMemory&& other) noexcept;
  SlotMemory& operator=(SlotMemory&& other) noexcept;

  // A memfd that neither shrinks nor grows.
  static Result<Descriptor> sealed(std::size_t bytes);

  // These parts of these slots lie in `fd` from now on, one behind the other; what lay there is not
  // seen any more. bad_input when the place is none, or `fd` no sealed memory of that size. Nobody
  // uses the slots meanwhile (the caller's to know).
  Result<void> join(int fd, const Joint& joint);
  // They are in the own memory again.
  Result<void> part(const Joint& joint);

  int fd() const { return fd_.get(); }
  std::uint32_t slots() const { return slots_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  // slot < slots() (a CHECK).
  char* base(std::uint32_t slot) const;
  std::span<char> bytes(std::uint32_t slot) const { return {base(slot), slot_bytes_}; }

 private:
  SlotMemory(Descriptor fd, char* start, std::size_t slot_bytes, std::uint32_t slots);
  static Result<SlotMemory> map(Descriptor fd, std::size_t slot_bytes, std::uint32_t slots);
  bool holds(const Joint& joint) const;

  Descriptor fd_;
  char* start_ = nullptr;
  std::size_t slot_bytes_ = 0;
  std::uint32_t slots_ = 0;
};

}  // namespace partita::serve
