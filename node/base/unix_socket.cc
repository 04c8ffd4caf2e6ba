#include "base/unix_socket.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace partita {

UnixAddress::UnixAddress(Descriptor folder, const std::string& name) : folder_(std::move(folder)) {
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, name.data(), name.size());
}

Result<UnixAddress> UnixAddress::of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  std::string name = path;
  Descriptor folder{-1};
  if (path.size() >= sizeof(sockaddr_un::sun_path) && slash != std::string::npos) {
    const std::string folder_name = path.substr(0, slash + 1);
    folder = Descriptor(::open(folder_name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) {
      return environment_error(path,
                               std::string("cannot open its directory: ") + std::strerror(errno));
    }
    name = "/proc/self/fd/" + std::to_string(folder.get()) + "/" + path.substr(slash + 1);
  }
  if (name.empty() || name.size() >= sizeof(sockaddr_un::sun_path) ||
      name.find('\0') != std::string::npos) {
    return bad_input(path, "this cannot be the name of a socket");
  }
  return UnixAddress(std::move(folder), name);
}

Result<UnixPeer> unix_peer(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return environment_error("socket",
                             std::string("cannot read who connects: ") + std::strerror(errno));
  return UnixPeer{.pid = who.pid, .uid = who.uid};
}

void pass_beside(msghdr& message, std::span<const int> descriptors, PassedRoom& room) {
  CHECK(descriptors.size() <= kMostPassed);
  if (descriptors.empty()) return;
  message.msg_control = room.bytes.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
}

void take_beside(msghdr& message, PassedRoom& room) {
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
}

std::vector<Descriptor> passed_beside(msghdr& message) {
  std::vector<Descriptor> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + (i * sizeof(int)), sizeof fd);
      found.emplace_back(fd);
    }
  }
  return found;
}

}  // namespace partita
