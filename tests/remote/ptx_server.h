// A server in this process whose sessions run PTX on cores, or what somebody else opens.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/cpu/cpu_backend.h"
#include "server/session.h"
#include "server/testing/table_shelf.h"
#include "wire/net/channel.h"

namespace partita::remote::test {

// Sessions, a thread for each, until it is destroyed; on back ends that run PTX unless it is said
// otherwise.
class PtxServer {
 public:
  using Opened = Result<std::unique_ptr<server::DeviceBackend>>;
  using Open = std::function<Opened(const server::Wanted&)>;

  PtxServer(const std::string& address, Open open)
      : open_(std::move(open)), listener_(*system_net().listen(address)) {
    acceptor_ = std::thread([this] { accept(); });
  }
  explicit PtxServer(const std::string& address, std::uint32_t devices = 1)
      : PtxServer(address, [devices](const server::Wanted& wanted) -> Opened {
          auto backend =
              cpu::CpuBackend::open({.units = 2, .flags = wanted.flags, .devices = devices});
          if (!backend) return failed(backend.error());
          return std::unique_ptr<server::DeviceBackend>(*std::move(backend));
        }) {}
  ~PtxServer() {
    stop_ = true;
    acceptor_.join();
    for (std::thread& thread : sessions_) thread.join();
  }
  std::string address() const { return listener_->address(); }

 private:
  void accept() {
    while (!stop_) {
      auto accepted = listener_->accept(std::chrono::milliseconds(20));
      if (!accepted) continue;
      sessions_.emplace_back([this, channel = std::shared_ptr<Channel>(
                                        std::move(accepted->channel))] { serve(*channel); });
    }
  }

  void serve(Channel& channel) {
    const std::uint64_t number = next_session_++;
    server::TableShelf shelf(table_, {number, "test"});
    server::Session session(channel, images_, "", {}, &shelf);
    while (!stop_) {
      const server::Session::Step step = session.step(std::chrono::milliseconds(1));
      if (const auto wanted = session.wanted()) {
        const auto open = [this, wanted = *wanted] { return open_(wanted); };
        auto backend = open();
        if (!backend) return channel.shut();
        session.grant(number, *std::move(backend), open);
      }
      if (step.ended) break;
    }
    channel.shut();
  }

  const Open open_;
  server::MemoryImages images_;
  server::SharedTable table_{std::uint64_t{1} << 30};
  std::atomic<std::uint64_t> next_session_ = 1;
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> sessions_;
  std::thread acceptor_;
};

}  // namespace partita::remote::test
