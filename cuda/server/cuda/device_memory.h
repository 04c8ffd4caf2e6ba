// Memory of a session on the GPU: DeviceMemory maps it at the addresses that the client chose,
// inside one reserved range; PinnedBuffers are ours, for copies that no call waits for; Holds are
// words in pinned memory that streams wait for. Each gives back all it has at its end, when no
// stream uses it any more. Thread rule: the context's.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "server/backend.h"
#include "server/cuda/context.h"

namespace partita::remote::cuda {

class DeviceMemory {
 public:
  explicit DeviceMemory(Context& context) : context_(context) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The range of addresses that the client hands out: written into `device`.
  Result<void> reserve(server::DeviceSnapshot& device);
  server::Answered<void> allocate(std::uint64_t address, std::uint64_t bytes);
  void release(std::uint64_t address);

 private:
  struct Mapped {
    std::uint64_t bytes = 0;
    abi::AllocationHandle handle = 0;
  };
  Context& context_;
  std::uint64_t arena_ = 0, arena_bytes_ = 0;
  std::map<std::uint64_t, Mapped> mapped_;
};

inline constexpr std::size_t kPinnedBytes = std::size_t{4} << 20;  // a buffer
using Pinned = std::byte*;

class PinnedBuffers {
 public:
  explicit PinnedBuffers(Context& context) : context_(context) {}
  ~PinnedBuffers();
  PinnedBuffers(const PinnedBuffers&) = delete;
  PinnedBuffers& operator=(const PinnedBuffers&) = delete;

  // So many lie ready.
  server::Answered<void> make(std::size_t count);
  server::Answered<Pinned> take();
  void give_back(Pinned buffer) { free_.push_back(buffer); }

 private:
  server::Answered<Pinned> one_more();
  Context& context_;
  std::vector<Pinned> free_, all_;
};

inline constexpr std::size_t kMaxHolds = 1024;  // calls of the client's functions at the same time

class Holds {
 public:
  explicit Holds(Context& context) : context_(context) {}
  ~Holds();
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  Result<void> open();
  // A hold's number, from 1 on; kLaunchOutOfResources when all are taken.
  server::Answered<std::uint64_t> take();
  // The stream waits here until resume().
  server::Answered<void> wait(abi::Stream stream, std::uint64_t hold);
  void resume(std::uint64_t hold);
  void resume_all();

 private:
  Context& context_;
  std::uint32_t* words_ = nullptr;  // one per hold, seen by the device
  abi::DevicePointer words_on_device_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace partita::remote::cuda
