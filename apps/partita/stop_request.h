// StopRequest: SIGINT and SIGTERM as something to ask for, while it lives; started programs get
// them as ever. Made on the main thread before any other thread starts, so that all of them block
// both.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>

namespace partita::cli {

class StopRequest {
 public:
  StopRequest() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~StopRequest() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Waits that long at most; true when one came.
  bool within(std::int64_t ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec time{static_cast<std::time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
    return ::sigtimedwait(&signals_, nullptr, &time) > 0;
  }

 private:
  sigset_t signals_{}, before_{};
};

}  // namespace partita::cli
