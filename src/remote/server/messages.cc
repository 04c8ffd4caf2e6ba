#include "remote/server/messages.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace partita::remote::server {

Result<std::pair<Descriptor, Descriptor>> message_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return environment_error("socketpair", std::strerror(errno));
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

bool send_bytes(int socket, Bytes bytes, std::span<const int> descriptors) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPassed * sizeof(int))> control{};
  if (descriptors.size() > kMaxPassed) return false;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

Arrival receive_bytes(int socket, std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                      bool wait) {
  iovec piece{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPassed * sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const int flags = MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT);
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, flags);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return Arrival::none;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); got >= 0 && part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return got == static_cast<ssize_t>(into.size()) ? Arrival::came : Arrival::gone;
}

}  // namespace partita::remote::server
