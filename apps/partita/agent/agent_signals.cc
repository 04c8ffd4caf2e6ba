#include "agent/agent_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>

namespace partita::cli {

AgentSignals::AgentSignals() : signal_(-1), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  signal_ = Descriptor(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  std::signal(SIGPIPE, SIG_IGN);  // who reads our lines may go away
}

AgentSignals::~AgentSignals() {
  look();  // what came too late is not for others
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void AgentSignals::look() {
  signalfd_siginfo info{};
  while (::read(signal_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP) {
      reread_ = true;
    } else {
      ending_ = true;
    }
  }
}

bool AgentSignals::wait(std::int64_t ns) {
  pollfd ready[] = {{signal_.get(), POLLIN, 0}, {event_.get(), POLLIN, 0}};
  constexpr std::int64_t kMilli = 1'000'000, kLongest = 3'600'000;
  const std::int64_t ms = std::clamp((ns + kMilli - 1) / kMilli, std::int64_t{0}, kLongest);
  const bool came = ::poll(ready, 2, static_cast<int>(ms)) != 0;
  std::uint64_t woken = 0;
  while (::read(event_.get(), &woken, sizeof woken) > 0) continue;
  return came;
}

void AgentSignals::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event_.get(), &one, sizeof one) > 0);
}

bool AgentSignals::ending() {
  look();
  return ending_;
}

bool AgentSignals::reread() {
  look();
  const bool came = reread_;
  reread_ = false;
  return came;
}

}  // namespace partita::cli
