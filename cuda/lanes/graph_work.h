// From the task graph of a file to work of that size that can be run, and from what ran back to the
// vocabulary, so that the pictures serve for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "hw/topology.h"
#include "lanes/graph_run.h"
#include "plan/graph.h"

namespace partita::carry {

// Puts what a task that has code runs.
using CodeOf = std::function<void(int task, exec::LaneWork& work)>;

// The graph of a problem whose tasks, with `clock`, compute as long as they say on a core alone,
// and copy as many bytes; those with code run that. Without a clock there is nothing to run.
// Kernels ask for units of `topology`.
exec::TaskGraph graph_of(const plan::GraphProblem& problem, const hw::Topology& topology,
                         Clock* clock, const CodeOf& code = nullptr);

// What ran, on `threads` threads and the units of `topology`.
plan::GraphRun told(const exec::GraphRun& run, std::string driver, const hw::Topology& topology,
                    int threads);

}  // namespace partita::carry
