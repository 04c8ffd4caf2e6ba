#include "server/messages.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/unix_socket.h"

namespace partita::remote::server {

Result<std::pair<Descriptor, Descriptor>> message_pair() {
  int ends[2] = {};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return environment_error("socketpair", std::strerror(errno));
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

bool send_bytes(int socket, Bytes bytes, std::span<const int> descriptors) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (descriptors.size() > kMostPassed) return false;
  PassedRoom room;
  pass_beside(message, descriptors, room);
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

Arrival receive_bytes(int socket, std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                      bool wait) {
  iovec piece{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  PassedRoom room;
  take_beside(message, room);
  const int flags = MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT);
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, flags);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return Arrival::none;
  if (got >= 0)
    for (Descriptor& one : passed_beside(message)) descriptors.push_back(std::move(one));
  return got == static_cast<ssize_t>(into.size()) ? Arrival::came : Arrival::gone;
}

}  // namespace partita::remote::server
