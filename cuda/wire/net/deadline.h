// Waiting for a descriptor until a point in time.
#pragma once

#include <poll.h>

#include <cerrno>
#include <chrono>

#include "wire/net/channel.h"

namespace partita::remote {

class Deadline {
 public:
  explicit Deadline(Nanos patience) : patience_(patience), begin_(now()) {}
  // Something happened: `patience` from now.
  void renew() { begin_ = now(); }
  Nanos waited() const { return now() - begin_; }
  Nanos left() const {
    const Nanos waited_so_far = waited();
    return waited_so_far >= patience_ ? Nanos(0) : patience_ - waited_so_far;
  }
  // Waits for one of `events` (or the other side's end); false at the deadline.
  bool wait_for(int fd, short events) const {
    for (;;) {
      const Nanos rest = left();
      pollfd one{fd, events, 0};
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(rest);
      const timespec time{static_cast<time_t>(seconds.count()),
                          static_cast<long>((rest - seconds).count())};
      const int ready = ::ppoll(&one, 1, &time, nullptr);
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return true;  // the next call on it says what is wrong
      if (rest <= Nanos(0)) return false;
    }
  }

 private:
  static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

  Nanos patience_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace partita::remote
