// A Channel over a stream socket, unix or TCP. Owns the descriptor.
#pragma once

#include <memory>

#include "base/descriptor.h"
#include "wire/net/channel.h"

namespace partita::remote {

std::unique_ptr<Channel> socket_channel(Descriptor socket);

}  // namespace partita::remote
