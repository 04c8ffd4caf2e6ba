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
};

class RealClock final : public Clock {
 public:
  std::int64_t now_ns() override;
  std::int64_t cpu_ns() override;
};

class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() override { return now; }
  std::int64_t cpu_ns() override { return now; }
  std::int64_t now = 0;
};

}  // namespace partita
