// Waiting awake for a while before sleeping: waking a thread takes some 5 us, on virtual machines
// 50, and what is waited for here is often over sooner. At most as many threads spin at a time as
// there are other processors, so that none is kept from those that work.
// Thread rule: any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

namespace partita {

inline constexpr std::chrono::microseconds kSpinFor{20};

inline void spin_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Whether `done` came true; asked again and again for kSpinFor.
template <class Done>
bool spin_until(const Done& done) {
  constexpr int kBetweenLooks = 32;  // at the clock
  static std::atomic<int> spinning = 0;
  static const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
  if (done()) return true;
  bool came = false;
  if (spinning.fetch_add(1, std::memory_order_relaxed) < most) {
    const auto end = std::chrono::steady_clock::now() + kSpinFor;
    do {
      for (int i = 0; i < kBetweenLooks && !came; ++i) spin_once(), came = done();
    } while (!came && std::chrono::steady_clock::now() < end);
  }
  spinning.fetch_sub(1, std::memory_order_relaxed);
  return came;
}

// A mutex whose holders are quick: who finds it taken tries a few times before it sleeps.
class QuickMutex {
 public:
  void lock() {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      if (mutex_.try_lock()) return;
      spin_once();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// What one thread waits for and others raise: a system call only where it sleeps. Raised several
// times before it is seen counts once.
class Wake {
 public:
  void wait() {
    if (spin_until([this] { return state_.load() == kRaised; })) {
      state_ = kNothing;
      return;
    }
    std::uint32_t seen = kNothing;
    if (state_.compare_exchange_strong(seen, kAsleep))
      while (state_.load() == kAsleep) state_.wait(kAsleep);
    state_ = kNothing;
  }
  void raise() {
    if (state_.exchange(kRaised) == kAsleep) state_.notify_one();
  }
  // Whether raising it takes a system call.
  bool asleep() const { return state_.load() == kAsleep; }

 private:
  static constexpr std::uint32_t kNothing = 0, kRaised = 1, kAsleep = 2;
  std::atomic<std::uint32_t> state_ = kNothing;
};

}  // namespace partita
