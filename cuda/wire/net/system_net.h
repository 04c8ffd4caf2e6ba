// The system's sockets and shared memory as a Net (system_net() in channel.h), and a channel that
// another process began.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "wire/net/channel.h"

namespace partita::remote {

// The channel whose Channel::descriptors() came from the process that accepted it, in their order;
// it goes on where that process stopped, which must not use its own copy any more. A FrameReader
// there must hold nothing that was read ahead.
Result<std::unique_ptr<Channel>> adopt(std::vector<Descriptor> descriptors);

// Whether who listens there is reached from this host only: a socket in the file system, or the
// loopback by number or as "localhost". False for what is no address.
bool only_this_host(std::string_view address);

}  // namespace partita::remote
