// Unix sockets, with rings over shared memory (ring_channel.h) or plain. The listening side speaks
// first: an offer of 16 bytes says which, and carries the memory and a socket when it is rings.
#pragma once

#include <memory>
#include <string>

#include "wire/net/channel.h"

namespace partita::remote {

enum class UnixForm : bool { plain, rings };

// A connector takes what the listener offers; one that insists on a plain socket is refused by a
// listener with rings.
Result<std::unique_ptr<Channel>> connect_unix(const std::string& path, UnixForm form,
                                              Nanos patience);
Result<std::unique_ptr<Listener>> listen_unix(const std::string& path, UnixForm form);

}  // namespace partita::remote
