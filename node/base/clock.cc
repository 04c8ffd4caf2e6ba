#include "base/clock.h"

#include <cerrno>
#include <ctime>

namespace partita {
namespace {

std::int64_t read_ns(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::int64_t RealClock::now_ns() { return read_ns(CLOCK_MONOTONIC); }
std::int64_t RealClock::cpu_ns() { return read_ns(CLOCK_PROCESS_CPUTIME_ID); }

void RealClock::sleep_ns(std::int64_t ns) {
  if (ns <= 0) return;
  timespec left{static_cast<std::time_t>(ns / 1'000'000'000),
                static_cast<long>(ns % 1'000'000'000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) continue;
}

}  // namespace partita
