// Running a NodeBrain: performing what it asks at the doors and reporting back. Two runners of the
// same brain: run_real, on whatever clock the doors have, which looks for interruptions while time
// passes; run_simulated, on a clock that jumps from event to event.
#pragma once

#include <functional>

#include "act/node_brain.h"

namespace partita::actuate {

// Until the brain has finished; the journal must be the one whose state the brain was given.
Result<ApplyReport> run_real(NodeBrain& brain, const Doors& doors, Journal& journal,
                             const ApplyObserver& observe);

// The same on the doors' clock, which must be `clock`. `world` is called before every step and says
// whether somebody interrupts.
Result<ApplyReport> run_simulated(NodeBrain& brain, const Doors& doors, Journal& journal,
                                  ManualClock& clock, const std::function<bool()>& world);

}  // namespace partita::actuate
