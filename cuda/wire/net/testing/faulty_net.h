// An adaptor around a real channel that cuts the connection after so many bytes. For tests.
#pragma once

#include <memory>

#include "wire/net/channel.h"

namespace partita::remote {

// Passes `bytes` in both directions together, then ends the connection in the middle of a write.
std::unique_ptr<Channel> cutting_channel(std::unique_ptr<Channel> channel, std::uint64_t bytes);

}  // namespace partita::remote
