// Who took the joules, as a picture.
#pragma once

#include <string>

#include "model/energy/report.h"

namespace partita::decide {

// A bar per tenant with its share of idle power and its uncertainty, what is nobody's, and where
// the report compares rules a thin bar for each. A self-contained SVG.
std::string energy_svg(const energy::EnergyReport& report);

}  // namespace partita::decide
