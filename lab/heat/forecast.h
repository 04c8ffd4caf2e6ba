// One GPU's temperature from its power: a chain of a few thermal resistances, each with its time
// constant, fitted to what the board said of itself. Not a model of the chip: it knows one
// temperature, and only the fan, the load and the room that it has seen.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace partita::thermal {

struct HeatPoint {
  Seconds at;   // grows
  Watts power;  // mean since the point before
  Celsius temperature;
};

struct ThermalStage {
  double resistance = 0;  // K/W
  Seconds time;           // constant
  double rise = 0;        // K, at the end of what was fitted
  bool operator==(const ThermalStage&) const = default;
};

struct GpuThermalModel {
  Celsius ambient;
  std::vector<ThermalStage> stages;  // quickest first, at most kMostStages
  double rms_k = 0;                  // of the fit
  double held_out_rms_k = 0;         // of the last part, predicted from a fit to the first part
  Watts least, most;                 // of the powers seen
  Seconds span;                      // of what was seen

  double resistance() const;  // of all stages
};

inline constexpr int kMostStages = 4;
inline constexpr std::size_t kLeastPoints = 20;

// Refused: fewer than kLeastPoints points, and powers that change so little that the room's
// temperature cannot be told from the heat sink's resistance, unless `ambient` is given.
Result<GpuThermalModel> fit_thermal(std::span<const HeatPoint> points,
                                    std::optional<Celsius> ambient);

// The temperature so long after the end of what was fitted, with this power from then on.
Celsius temperature_after(const GpuThermalModel& model, Watts power, Seconds time);
// Where it ends.
Celsius settled_temperature(const GpuThermalModel& model, Watts power);
// When `limit` is reached; empty: never.
std::optional<Seconds> time_to_reach(const GpuThermalModel& model, Watts power, Celsius limit);
// The power that ends at `limit`; 0 where the room is as hot.
Watts sustainable(const GpuThermalModel& model, Celsius limit);

}  // namespace partita::thermal
