// What sockets of one host have beyond others: addresses that are files, who is at the other end,
// and descriptors that travel beside a message.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/processes.h"
#include "base/result.h"

namespace partita {

// The address of a socket file, however long its path is: a long one is reached through a
// descriptor of its directory, which lives as long as this.
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

// Who connected, as the kernel says.
struct UnixPeer {
  Pid pid = 0;
  uid_t uid = 0;
  bool operator==(const UnixPeer&) const = default;
};
Result<UnixPeer> unix_peer(int socket);

inline constexpr std::size_t kMostPassed = 4;  // descriptors beside one message

// Room beside a message. Lives as long as the message is used.
struct PassedRoom {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> bytes{};
};
// The descriptors, at most kMostPassed, go beside the message; they stay the caller's.
void pass_beside(msghdr& message, std::span<const int> descriptors, PassedRoom& room);
// The message takes what comes beside it, for recvmsg with MSG_CMSG_CLOEXEC.
void take_beside(msghdr& message, PassedRoom& room);
// What has come beside it; asked once, by whoever has received the message.
std::vector<Descriptor> passed_beside(msghdr& message);

}  // namespace partita
