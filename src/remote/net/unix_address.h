// The address of a socket file, however long its path is: a long one is reached through a
// descriptor of its directory, which lives as long as this.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace partita::remote {

class UnixAddress {
 public:
  static Result<UnixAddress> of(const std::string& path);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  UnixAddress(Descriptor folder, const std::string& name);

  Descriptor folder_;
  sockaddr_un address_{};
};

}  // namespace partita::remote
