// What befalls a simulated node without anybody's doing: how often, and when next. Pure; follows
// from the random stream that it is given.
#pragma once

#include <array>
#include <cstdint>

#include "base/rng.h"

namespace partita::control {

// Events per day; 0: never.
struct SimTroubles {
  double reboots = 0, lost_gpus = 0, xids = 0, ecc = 0, foreign = 0, worker_deaths = 0,
         gateway_restarts = 0;
  double driver_faults = 0;  // chance per changing call
  // Hours at the end of every twelve in which nothing of that happens.
  double calm_hours = 0;
};
SimTroubles usual_troubles();

enum class Trouble : std::uint8_t { reboot, lost, xid, ecc, foreign, worker, gateway };
inline constexpr std::size_t kTroubles = 7;

class TroubleDates {
 public:
  // Each kind's first date, drawn at time 0.
  TroubleDates(const SimTroubles& troubles, Rng& rng);
  bool calm(std::int64_t now_ns) const;
  std::int64_t next() const;
  bool due(Trouble kind, std::int64_t now_ns) const;
  // When it happens after that: at exponential times, never in calm.
  void draw(Trouble kind, std::int64_t now_ns);

 private:
  const SimTroubles troubles_;
  Rng& rng_;
  std::array<std::int64_t, kTroubles> next_ = {};
};

}  // namespace partita::control
