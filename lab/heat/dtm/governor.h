// What sets the clock once an epoch, from the hottest block's temperature: up and down by a step
// (Chow's dissertation, 5.6.1), PID, and a prediction with the thermal model itself. Clocks are
// indices into an ascending table; the governor sees temperatures as sensors give them.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace partita::dtm {

enum class Governing { none, step, pid, predictive };
inline constexpr std::string_view kGoverningWords[] = {"none", "step", "pid", "predictive"};

struct GovernorOptions {
  double hysteresis_k = 0.5;  // step: up again only so far below the cap; PID: aims there
  double proportional = 0.02, integral = 0.5, derivative = 0;  // PID: share of the range per K
  double margin_k = 0;  // predictive: stays so far below the cap
};

// What is known at the start of an epoch.
struct EpochView {
  double sensed = 0;                    // hottest block, kelvin, as the sensor rounds it
  std::span<const double> predicted{};  // predictive: hottest block at the end, per clock
};

class Governor {
 public:
  virtual ~Governor() = default;
  // The clock of the epoch that begins.
  virtual int next(const EpochView& view) = 0;
};
// `clocks` in MHz, ascending; the first epoch runs at the highest.
std::unique_ptr<Governor> make_governor(Governing kind, const GovernorOptions& options,
                                        const std::vector<double>& clocks, double cap,
                                        Seconds epoch);

}  // namespace partita::dtm
