// Plots of a workload profile: throughput and latency against the batch size, one line per instance
// size, as blocks for terminals or as a self-contained SVG. Pure.
#pragma once

#include <string>

#include "profile/workload_profile.h"

namespace partita::forms {

// One line per size: throughput and latency as blocks of eight heights over the batch sizes that
// ran, each with its range. Empty when no point has that many processes.
std::string plot_text(const profile::WorkloadProfile& profile, int processes);

// Two panels with logarithmic axes. Well-formed XML whatever the model's name is.
std::string plot_svg(const profile::WorkloadProfile& profile, int processes);

}  // namespace partita::forms
