// StopRequest: SIGINT, SIGTERM, SIGHUP and a reader that closed our output as something to ask for,
// while it lives; started programs get them as ever, and what is ignored when it begins (nohup)
// stays ignored. Afterwards a closed output ends no more than the write. Made on the main thread
// before any other thread starts, so that all of them block the signals.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>

#include "base/units.h"

namespace partita::cli {

class StopRequest {
 public:
  StopRequest() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      struct sigaction now {};
      ::sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN) sigaddset(&signals_, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    // Afterwards they do what they do to any program; see EarlySignals.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      if (sigismember(&signals_, signal) == 1) std::signal(signal, SIG_DFL);
  }
  ~StopRequest() {
    std::signal(SIGPIPE, SIG_IGN);
    while (within(0)) continue;  // what came too late is not for others
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Waits that long at most; true when one came.
  bool within(std::int64_t ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec time{static_cast<std::time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
    return ::sigtimedwait(&signals_, nullptr, &time) > 0;
  }
  bool within(Seconds time) { return within(static_cast<std::int64_t>(time.value * 1e9)); }

 private:
  sigset_t signals_{}, before_{};
};

}  // namespace partita::cli
