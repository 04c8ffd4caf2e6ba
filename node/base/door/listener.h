// DoorListener: a listening socket with the connections that came in by it, their limits and times.
// Several may share a desk. Loop thread only.
#pragma once

#include <memory>

#include "base/door/door_connection.h"
#include "base/door/loop.h"
#include "base/door/transport.h"

namespace partita::serve {

class DoorListener {
 public:
  // Owns the descriptor, which listens (address.h). Loop and desk outlive the listener. Ignores
  // SIGPIPE in this process.
  static std::unique_ptr<DoorListener> open(Loop& loop, Desk& desk, int fd,
                                            std::shared_ptr<TlsServer> tls = {});
  ~DoorListener();
  DoorListener(const DoorListener&) = delete;
  DoorListener& operator=(const DoorListener&) = delete;

  int port() const;  // that it listens on; 0: a Unix socket
  // Takes no connection any more, closes idle ones, and the others after their answers.
  void drain();

 private:
  struct Impl;
  explicit DoorListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Lets this process have as many descriptors as its hard limit says; a connection needs one.
void raise_descriptor_limit();

}  // namespace partita::serve
