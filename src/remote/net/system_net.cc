#include "remote/net/system_net.h"

#include <string>

#include "remote/net/ring_channel.h"
#include "remote/net/socket_channel.h"
#include "remote/net/tcp_net.h"
#include "remote/net/unix_net.h"

namespace partita::remote {
namespace {

struct SystemAddress {
  enum class Kind : unsigned char { tcp, rings, plain };
  Kind kind = Kind::tcp;
  std::string path;
  HostPort host;
};

Result<SystemAddress> parse_address(std::string_view text) {
  auto after = [text](std::string_view prefix) { return std::string(text.substr(prefix.size())); };
  if (text.starts_with("unix:")) {
    return SystemAddress{.kind = SystemAddress::Kind::rings, .path = after("unix:"), .host = {}};
  }
  if (text.starts_with("socket:")) {
    return SystemAddress{.kind = SystemAddress::Kind::plain, .path = after("socket:"), .host = {}};
  }
  auto host = parse_host_port(text.starts_with("tcp:") ? after("tcp:") : std::string(text));
  if (!host) {
    return bad_input(std::string(text),
                     "this is no address; write unix:PATH, socket:PATH or HOST:PORT");
  }
  return SystemAddress{.path = {}, .host = std::move(*host)};
}

class SystemNet final : public Net {
 public:
  Result<std::unique_ptr<Channel>> connect(std::string_view address, Nanos patience) override {
    const auto where = parse_address(address);
    if (!where) return failed(where.error());
    if (where->kind == SystemAddress::Kind::tcp) return connect_tcp(where->host, patience);
    return connect_unix(where->path, form_of(*where), patience);
  }
  Result<std::unique_ptr<Listener>> listen(std::string_view address) override {
    const auto where = parse_address(address);
    if (!where) return failed(where.error());
    if (where->kind == SystemAddress::Kind::tcp) return listen_tcp(where->host);
    return listen_unix(where->path, form_of(*where));
  }

 private:
  static UnixForm form_of(const SystemAddress& where) {
    return where.kind == SystemAddress::Kind::rings ? UnixForm::rings : UnixForm::plain;
  }
};

}  // namespace

Net& system_net() {
  static SystemNet net;  // holds nothing
  return net;
}

Result<std::unique_ptr<Channel>> adopt(std::vector<Descriptor> descriptors) {
  if (descriptors.size() == 1) return socket_channel(std::move(descriptors[0]));
  if (descriptors.size() != 3)
    return bad_input("remote connection", "no channel has so many parts");
  return ring_channel(
      {std::move(descriptors[0]), std::move(descriptors[1]), std::move(descriptors[2])},
      RingSide::listener);
}

}  // namespace partita::remote
