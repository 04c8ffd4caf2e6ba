#include "drivers/sim/power_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace partita::drivers::sim {
namespace {

constexpr std::int64_t kTickNs = 100'000'000;  // activities and clocks change this often
constexpr std::int64_t kCoarseTickNs = 100 * kTickNs;
constexpr std::int64_t kFineNs = 60'000'000'000;  // the last minute of a long time is told finely
constexpr std::int64_t kBackNs = 10'000'000'000;
constexpr double kStepMhz = 15;

// Shares of the power between idle and limit.
constexpr double kActiveBase = 0.08;  // as soon as anything runs
constexpr double kDynamic = 1.0;      // everything busy
// Heat: a board at its limit settles this far above its surroundings.
constexpr double kChipRiseC = 44, kMemoryRiseC = 52;
constexpr double kChipSeconds = 15, kMemorySeconds = 40, kAverageSeconds = 1;
constexpr double kSlowC = 85, kHalveC = 92;  // of the chip
constexpr double kSlowdownPerDegree = 0.04;

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// Around the level, by a slow wave and a little noise.
double activity_at(const SimLoad& load, std::int64_t tick) {
  if (load.seed == 0) return 0;
  const double period = 40 + 160 * unit(mix64(load.seed + 1));  // ticks
  const double phase = unit(mix64(load.seed + 2));
  const double turns = std::fmod(static_cast<double>(tick) / period + phase, 1.0);
  const double wave = std::sin(2 * std::numbers::pi * turns);
  const double noise =
      2 * unit(mix64(load.seed ^ static_cast<std::uint64_t>(tick) * kGolden64)) - 1;
  return std::clamp(load.level * (1 + 0.12 * wave + 0.04 * noise), 0.0, 1.0);
}

// Power of switching goes with frequency and voltage squared; the voltage with the frequency.
double switching(double mhz, const Figures& board) {
  if (board.sm_max == 0) return 0;
  const double f = mhz / board.sm_max;
  const double volts = 0.65 + 0.35 * f;
  return f * volts * volts;
}

struct Demand {
  double busy = 0;  // activities by share
  bool any = false;
};

double watts_at(double mhz, const Demand& demand, const Figures& board) {
  const double span = static_cast<double>(board.limit_w) - board.idle_w;
  const double active = demand.any ? kActiveBase + (kDynamic)*demand.busy : 0;
  return board.idle_w + span * active * switching(mhz, board);
}

struct Pace {
  double mhz = 0;
  unsigned reasons = 0;
};

// The highest clock that locks, heat and the limit allow.
Pace clock_of(const SimPower& power, const Demand& demand, const Figures& board) {
  const auto& lock = power.settings.clocks;
  const double low = lock ? lock->low.value : board.sm_idle;
  Pace clock{lock ? lock->high.value : board.sm_max, 0};
  if (!demand.any) return {low, static_cast<unsigned>(Throttle::idle)};
  if (power.chip_c >= kSlowC) {
    const double kept = std::max(0.3, 1 - kSlowdownPerDegree * (power.chip_c - kSlowC + 1));
    clock = {std::min(clock.mhz, kept * board.sm_max),
             static_cast<unsigned>(Throttle::software_heat)};
  }
  if (power.chip_c >= kHalveC)
    clock = {std::min(clock.mhz, board.sm_max / 2.0),
             clock.reasons | static_cast<unsigned>(Throttle::hardware_heat)};
  const double limit = power.settings.limit.value_or(Watts{1.0 * board.limit_w}).value;
  if (watts_at(clock.mhz, demand, board) > limit) {
    double fits = board.sm_idle, too_fast = clock.mhz;
    while (too_fast - fits > kStepMhz / 2) {
      const double middle = (fits + too_fast) / 2;
      (watts_at(middle, demand, board) > limit ? too_fast : fits) = middle;
    }
    clock = {fits, clock.reasons | static_cast<unsigned>(Throttle::power_cap)};
  }
  clock.mhz = std::max<double>(
      board.sm_idle,
      board.sm_max - kStepMhz * std::ceil((board.sm_max - clock.mhz) / kStepMhz - 1e-9));
  return clock;
}

Demand demand_at(const SimPower& power, std::int64_t tick) {
  Demand demand;
  for (const SimLoad& load : power.loads) {
    demand.busy += load.share * activity_at(load, tick);
    demand.any = demand.any || load.seed != 0;
  }
  demand.busy = std::min(demand.busy, 1.0);
  return demand;
}

double towards(double from, double to, double seconds, double constant) {
  return to + (from - to) * std::exp(-seconds / constant);
}

// `length_ns` within one tick.
void pass(SimPower& power, const Figures& board, std::int64_t length_ns) {
  const std::int64_t tick = power.at_ns / kTickNs;
  const double seconds = static_cast<double>(length_ns) * 1e-9;
  const Demand demand = demand_at(power, tick);
  const double watts = watts_at(clock_of(power, demand, board).mhz, demand, board);
  const double of_limit = board.limit_w > 0 ? watts / board.limit_w : 0;
  power.energy_j += watts * seconds;
  power.average_w = towards(power.average_w, watts, seconds, kAverageSeconds);
  power.chip_c =
      towards(power.chip_c, power.ambient_c + kChipRiseC * of_limit, seconds, kChipSeconds);
  power.memory_c =
      towards(power.memory_c, power.ambient_c + kMemoryRiseC * of_limit, seconds, kMemorySeconds);
  for (SimLoad& load : power.loads) load.busy_s += activity_at(load, tick) * seconds;
  power.at_ns += length_ns;
}

}  // namespace

SimPower evolved(const SimPower& power, const Figures& board, std::int64_t now_ns) {
  SimPower then = power;
  if (then.at_ns < 0) {
    const double of_limit = board.limit_w > 0 ? 1.0 * board.idle_w / board.limit_w : 0;
    then.average_w = board.idle_w;
    then.chip_c = then.ambient_c + kChipRiseC * of_limit;
    then.memory_c = then.ambient_c + kMemoryRiseC * of_limit;
    then.at_ns = now_ns;
  }
  // A little back: another process looked in between. A lot: this computer started anew.
  if (now_ns < then.at_ns - kBackNs) then.at_ns = now_ns;
  while (then.at_ns < now_ns) {
    const std::int64_t step = now_ns - then.at_ns > kFineNs ? kCoarseTickNs : kTickNs;
    const std::int64_t end = (then.at_ns / step + 1) * step;
    pass(then, board, std::min(end, now_ns) - then.at_ns);
  }
  return then;
}

PowerReading reading_of(const SimPower& power, const Figures& board) {
  const std::int64_t tick = std::max<std::int64_t>(power.at_ns, 0) / kTickNs;
  const Demand demand = demand_at(power, tick);
  const Pace clock = clock_of(power, demand, board);
  PowerReading reading{.watts = watts_at(clock.mhz, demand, board),
                       .sm_mhz = clock.mhz,
                       .reasons = clock.reasons,
                       .activities = {}};
  for (const SimLoad& load : power.loads) reading.activities.push_back(activity_at(load, tick));
  return reading;
}

telemetry::Activity activity_of(const SimLoad& load, double activity) {
  const auto part = [&](std::uint64_t which, double low, double high) {
    return activity * (low + (high - low) * unit(mix64(load.seed + 16 + which)));
  };
  return {.graphics_engine = activity,
          .sm = activity * 0.95,
          .occupancy = part(1, 0.2, 0.6),
          .tensor = part(2, 0.05, 0.5),
          .fp64 = part(3, 0, 0.05),
          .fp32 = part(4, 0.05, 0.4),
          .fp16 = part(5, 0, 0.2),
          .integer = part(6, 0.05, 0.25),
          .dram = part(7, 0.1, 0.7)};
}

device::PowerState power_state(const SimPower& power, const Figures& board) {
  const auto watts = [](unsigned value) { return Watts{1.0 * value}; };
  device::PowerState state{.now = power.settings,
                           .clocks_told = true,
                           .default_limit = watts(board.limit_w),
                           .least_limit = watts(board.low_w),
                           .most_limit = watts(board.limit_w),
                           .clocks = {}};
  if (!state.now.limit) state.now.limit = state.default_limit;
  for (double mhz = board.sm_max; mhz >= board.sm_idle && mhz > 0; mhz -= kStepMhz)
    state.clocks.push_back(Mhz{mhz});
  std::ranges::reverse(state.clocks);
  return state;
}

std::string settings_fault(const device::PowerSettings& settings, const Figures& board) {
  if (settings.limit &&
      !(settings.limit->value >= board.low_w && settings.limit->value <= board.limit_w))
    return fmt::format("a power limit of {:g} W; it may be {} to {} W", settings.limit->value,
                       board.low_w, board.limit_w);
  if (!settings.clocks) return {};
  const auto [low, high] = *settings.clocks;
  if (!(low.value >= board.sm_idle && low <= high && high.value <= board.sm_max))
    return fmt::format("clocks from {:g} to {:g} MHz; they may be {} to {} MHz", low.value,
                       high.value, board.sm_idle, board.sm_max);
  return {};
}

}  // namespace partita::drivers::sim
