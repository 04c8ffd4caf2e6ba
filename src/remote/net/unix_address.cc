#include "remote/net/unix_address.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace partita::remote {

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

}  // namespace partita::remote
