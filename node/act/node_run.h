// Running a NodeBrain: performing what it asks at the doors and reporting back, on whatever clock
// the doors have; interruptions are looked for while time passes.
#pragma once

#include "act/node_brain.h"

namespace partita::actuate {

// Until the brain has finished; the journal must be the one whose state the brain was given.
Result<ApplyReport> run_real(NodeBrain& brain, const Doors& doors, Journal& journal,
                             const ApplyObserver& observe);

}  // namespace partita::actuate
