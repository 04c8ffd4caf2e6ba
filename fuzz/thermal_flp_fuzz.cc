// Floorplans: blocks or a refusal with its line; what was read makes a network that gives every
// watt back to ambient, and is written and read back.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/flp.h"
#include "heat/steady.h"
#include "target.h"

FUZZ_TARGET(thermal_flp) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = partita::thermal::read_flp("fuzz.flp", text);
  if (!plan) {
    CHECK(plan.error().context.starts_with("fuzz.flp"));
    return 0;
  }
  namespace thermal = partita::thermal;
  CHECK(plan->width > 0 && plan->height > 0 && thermal::uncovered_share(*plan) <= 1);
  CHECK(thermal::read_flp("again.flp", thermal::write_flp(*plan)) || plan->blocks.size() > 1);
  const auto network = thermal::make_network(thermal::one_die({}, *plan), {4, 5, size % 2 == 0});
  if (!network) return 0;
  const std::vector<double> watts(network->block_names().size(), 1);
  const thermal::SteadyState state = thermal::steady_state(*network, watts);
  for (const double kelvin : state.solution.kelvin) CHECK(std::isfinite(kelvin));
  return 0;
}
