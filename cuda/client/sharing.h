// Memory that processes with sessions of one server share.
#pragma once

#include <cstdint>

#include "client/core.h"

namespace partita::remote::client {

class Session;

class SharedMemory {
 public:
  SharedMemory(Session& all, Core& core) : all_(all), core_(core) {}

  // The block at `address`, or (0) new memory, for others to open.
  Got<ShareKey> share(std::uint64_t address, std::uint64_t bytes);
  // What another one shares: at an address of its own, or mapped into reserved ones.
  Got<std::uint64_t> open(const ShareKey& key, std::uint64_t bytes);
  Status open_at(const ShareKey& key, const Block& part);

 private:
  Status open_at(Lock& lock, const ShareKey& key, const Block& part);

  Session& all_;
  Core& core_;
};

}  // namespace partita::remote::client
