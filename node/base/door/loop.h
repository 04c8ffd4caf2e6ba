// Loop: the one thread on which a gateway lives. It waits on descriptors (epoll), timers at
// absolute CLOCK_MONOTONIC nanoseconds (one timerfd for all), signals, and functions posted by
// other threads. Everything but post() and stop() is for the loop's own thread, or before run().
//
// Watch and Timer are handles: destroying one ends its calls at once, also from inside of them. The
// loop outlives them. Timers that are due go before descriptors, and are looked at between any two
// calls, so a timer is late by the kernel's lateness plus at most one call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"

namespace partita::serve {

struct Readiness {
  bool readable = false, writable = false;
  bool closed = false;  // error, or both directions shut: reading says which
};

class Loop {
 private:
  struct Impl;

 public:
  class Watch {
   public:
    Watch() = default;
    Watch(Watch&& other) noexcept;
    Watch& operator=(Watch&& other) noexcept;
    ~Watch() { reset(); }
    explicit operator bool() const { return loop_ != nullptr; }
    // What to be called for; with neither, only for `closed`. Level-triggered.
    void want(bool readable, bool writable);
    // Ends the calls. To be done before the descriptor is closed: a child may hold a copy of it.
    void reset();

   private:
    friend class Loop;
    Watch(Impl* loop, std::uint64_t id) : loop_(loop), id_(id) {}
    Impl* loop_ = nullptr;
    std::uint64_t id_ = 0;
  };

  // Calls its function once with the time it was due (which has passed) after each at().
  class Timer {
   public:
    Timer(Loop& loop, std::function<void(std::int64_t due_ns)> function);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    void at(
        std::int64_t due_ns);  // replaces the time set before; a time gone by: as soon as can be
    void cancel();
    bool pending() const;

   private:
    friend struct Impl;
    struct State;
    std::shared_ptr<State> state_;
  };

  // environment error when the kernel gives no epoll, eventfd or timerfd.
  static Result<std::unique_ptr<Loop>> make();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();                                 // until stop()
  void run_until(std::int64_t end_ns);        // until stop(), or that time; one turn at least
  void stop();                                // any thread; also ends a run() that has not begun
  void post(std::function<void()> function);  // any thread; in order
  static std::int64_t now_ns();               // CLOCK_MONOTONIC
  // The same without the time in which this thread stood still (no processor, a long call) while a
  // timer was due: to count how long others have been silent. By the loop's thread.
  std::int64_t awake_ns() const;

  // The descriptor stays the caller's. Readable from the start; want() changes that.
  [[nodiscard]] Watch watch(int fd, std::function<void(Readiness)> function);
  // Blocks the signals in the calling thread (so before others are started) and calls for each.
  Result<void> on_signals(const std::vector<int>& signals, std::function<void(int)> function);

 private:
  explicit Loop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::serve
