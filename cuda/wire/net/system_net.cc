#include "wire/net/system_net.h"

#include <charconv>
#include <string>

#include "wire/net/ring_channel.h"
#include "wire/net/slow_channel.h"
#include "wire/net/socket_channel.h"
#include "wire/net/tcp_net.h"
#include "wire/net/unix_net.h"

namespace partita::remote {
namespace {

constexpr std::string_view kSlow = "slow:";

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

// "slow:12.5:ADDRESS": every byte takes 12.5 us longer. Both sides must say so.
struct SlowAddress {
  Nanos one_way{};
  std::string address;
};

Result<SlowAddress> parse_slow(std::string_view text) {
  const std::string_view rest = text.substr(kSlow.size());
  const char* last = rest.data() + rest.size();
  double microseconds = -1;
  const auto [end, error] = std::from_chars(rest.data(), last, microseconds);
  if (error != std::errc() || end == last || *end != ':' ||
      !(microseconds >= 0 && microseconds <= 1e6)) {
    return bad_input(std::string(text), "this is no address; write slow:MICROSECONDS:ADDRESS");
  }
  return SlowAddress{Nanos(static_cast<long>(microseconds * 1e3)), std::string(end + 1, last)};
}

class SlowListener final : public Listener {
 public:
  SlowListener(std::unique_ptr<Listener> listener, Nanos one_way, std::string prefix)
      : listener_(std::move(listener)), one_way_(one_way), prefix_(std::move(prefix)) {}
  Result<Accepted> accept(Nanos patience) override {
    auto accepted = listener_->accept(patience);
    if (accepted) accepted->channel = slow_channel(std::move(accepted->channel), one_way_);
    return accepted;
  }
  int descriptor() const override { return listener_->descriptor(); }
  std::string address() const override { return prefix_ + listener_->address(); }

 private:
  std::unique_ptr<Listener> listener_;
  Nanos one_way_;
  std::string prefix_;
};

class SystemNet final : public Net {
 public:
  Result<std::unique_ptr<Channel>> connect(std::string_view address, Nanos patience) override {
    if (address.starts_with(kSlow)) {
      const auto slow = TRY(parse_slow(address));
      auto channel = TRY(connect(slow.address, patience));
      return slow_channel(std::move(channel), slow.one_way);
    }
    const auto where = TRY(parse_address(address));
    if (where.kind == SystemAddress::Kind::tcp) return connect_tcp(where.host, patience);
    return connect_unix(where.path, form_of(where), patience);
  }
  Result<std::unique_ptr<Listener>> listen(std::string_view address) override {
    if (address.starts_with(kSlow)) {
      const auto slow = TRY(parse_slow(address));
      auto listener = TRY(listen(slow.address));
      const auto prefix = address.substr(0, address.size() - slow.address.size());
      return std::make_unique<SlowListener>(std::move(listener), slow.one_way, std::string(prefix));
    }
    const auto where = TRY(parse_address(address));
    if (where.kind == SystemAddress::Kind::tcp) return listen_tcp(where.host);
    return listen_unix(where.path, form_of(where));
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

bool only_this_host(std::string_view address) {
  if (address.starts_with(kSlow)) {
    const auto slow = parse_slow(address);
    return slow && only_this_host(slow->address);
  }
  const auto where = parse_address(address);
  if (!where) return false;
  if (where->kind != SystemAddress::Kind::tcp) return true;
  const std::string& host = where->host.host;
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
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
