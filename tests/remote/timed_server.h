// A server with one session, on a TimedBackend if nothing else is said, in a process of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/backend.h"
#include "wire/net/channel.h"

namespace partita::remote::shapes {

class TimedServer {
 public:
  using Open = std::function<Result<std::unique_ptr<server::DeviceBackend>>()>;
  // Listens at `address`, for one client, with what `open` gives in the new process. Call it while
  // the process has one thread.
  static Result<std::unique_ptr<TimedServer>> start(const std::string& address, Open open = {});
  ~TimedServer();
  TimedServer(const TimedServer&) = delete;
  TimedServer& operator=(const TimedServer&) = delete;
  std::string address() const { return listener_->address(); }
  double cpu_ms() const;  // that its process has used

 private:
  TimedServer(std::unique_ptr<Listener> listener, int child)
      : listener_(std::move(listener)), child_(child) {}
  std::unique_ptr<Listener> listener_;  // it removes the socket when it goes
  int child_;
};

}  // namespace partita::remote::shapes
