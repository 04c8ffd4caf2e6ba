// A channel whose other end nobody reads.
#pragma once

#include "wire/net/channel.h"

namespace partita::remote::server {

class Deaf final : public Channel {
 public:
  Result<void> write(std::span<const std::span<const std::byte>>, Nanos) override { return {}; }
  Result<std::size_t> read(std::span<std::byte>, Nanos) override {
    return failed({ErrorCode::timeout, "nothing comes", "deaf"});
  }
  int descriptor() const override { return -1; }
  void shut() noexcept override {}
};

}  // namespace partita::remote::server
