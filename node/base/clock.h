// The clock door. Real code reads time only through it; simulations and tests pass a ManualClock.
#pragma once

#include <cstdint>

namespace partita {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds since an arbitrary origin.
  virtual std::int64_t now_ns() = 0;
  // CPU time of this process in nanoseconds; what planner timings are quoted in.
  virtual std::int64_t cpu_ns() = 0;
  // Returns once now_ns() has grown by `ns`; at once when it is not positive.
  virtual void sleep_ns(std::int64_t ns) = 0;
};

class RealClock final : public Clock {
 public:
  std::int64_t now_ns() override;
  std::int64_t cpu_ns() override;
  void sleep_ns(std::int64_t ns) override;
};

class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() override { return now; }
  std::int64_t cpu_ns() override { return now; }
  void sleep_ns(std::int64_t ns) override { now += ns > 0 ? ns : 0; }
  std::int64_t now = 0;
};

}  // namespace partita
