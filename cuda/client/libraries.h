// Functions of NVIDIA's libraries that the server carries out with those installed there
// (server/library_calls.h). Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "client/core.h"

namespace partita::remote::client {

class Session;

struct LibraryAnswer {
  std::int32_t status = 0;  // the library's own
  std::vector<std::byte> results = {};
};

class Libraries {
 public:
  Libraries(Session& all, Core& core) : all_(all), core_(core) {}

  // Whether the server could have them: its device is a GPU.
  bool may_be();
  // On the stream; nobody waits. `arguments` as the table of functions says. Work of no stream
  // (kNowhere) does not touch the device: what describes, and sizes.
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  Status call(std::uint64_t stream, std::string_view function, Bytes arguments);
  // The same, answered. Nothing comes of a capture that the stream is in.
  Got<LibraryAnswer> ask(std::uint64_t stream, std::string_view function, Bytes arguments);

 private:
  Got<std::uint64_t> begin(Lock& lock, std::uint64_t stream);

  Session& all_;
  Core& core_;
};

}  // namespace partita::remote::client
