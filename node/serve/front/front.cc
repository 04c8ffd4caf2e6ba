#include "serve/front/front.h"

#include <utility>

#include "base/door/access_log.h"
#include "base/door/address.h"
#include "base/door/listener.h"
#include "serve/front/routes.h"

namespace partita::serve {

struct Front::Impl final : Site {
  Impl(Backend& backend, FrontOptions given, EnginePool* engines)
      : options(std::move(given)),
        door{.backend = backend, .options = options, .engines = engines} {}

  std::shared_ptr<Exchange> route(const HttpHead& head, const Peer& peer) override {
    return serve::route(door, head, peer);
  }
  Reply refusal(int status, std::string_view message) override {
    return error_reply(status, message);
  }

  const FrontOptions options;
  Door door;
  Desk desk{.site = *this, .limits = options.limits, .counts = door.counts};
  std::unique_ptr<AccessLog> log = {};
  std::unique_ptr<DoorListener> listener = {};  // ends before what it uses
};

Front::Front(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Front::~Front() = default;

Result<std::unique_ptr<Front>> Front::open(Loop& loop, Backend& backend, FrontOptions options,
                                           EnginePool* engines) {
  const auto address = TRY(parse_listen_address(options.listen));
  const bool secure = !options.tls_certificate.empty() || !options.tls_key.empty();
  const std::string listen = options.listen;
  TRY(check_exposure(listen, address, secure, options.asks_for_tokens()));
  std::shared_ptr<TlsServer> tls;
  if (secure)
    tls = TRY(TlsServer::make(options.tls_certificate, options.tls_key));
  std::unique_ptr<AccessLog> log;
  if (!options.access_log.file.empty() || !options.access_log.otlp.empty())
    log = TRY(AccessLog::open(options.access_log));
  const auto listener = TRY(listen_on(listen, address));
  auto impl = std::make_unique<Impl>(backend, std::move(options), engines);
  Impl& front = *impl;
  front.log = std::move(log);
  front.desk.log = front.log.get();
  front.door.shared_memory_on = front.options.shared_memory.value_or(address.loopback);
  front.listener = DoorListener::open(loop, front.desk, listener, std::move(tls));
  return std::unique_ptr<Front>(new Front(std::move(impl)));
}

int Front::port() const { return impl_->listener->port(); }

std::size_t Front::connections() const { return impl_->door.counts.connections; }

SharedMemory* Front::shared_memory() {
  return impl_->door.shared_memory_on ? &impl_->door.shared_memory : nullptr;
}

AccessLog* Front::access_log() { return impl_->log.get(); }

void Front::drain() { impl_->listener->drain(); }

}  // namespace partita::serve
