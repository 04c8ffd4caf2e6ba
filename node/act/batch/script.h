// Script: what a batch executor has to do, as data: per GPU the order in which instances are
// created and destroyed, per visit (one existence of an instance) the order of its tasks, and what
// waits for what. Made by the application from a schedule; this module cannot see schedules.
// Planned times are for the report, and decide which reconfiguration goes first; nothing waits for
// them. Times are nanoseconds from the start of the run. Limits: those of the schedules it is made
// from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hw/layout.h"

namespace partita::exec {

using Nanos = std::int64_t;
inline constexpr Nanos kForever = INT64_MAX;
inline constexpr Nanos kSecond = 1'000'000'000;

struct Planned {
  Nanos begin = 0, end = 0;
  bool operator==(const Planned&) const = default;
};

struct ScriptTask {
  std::string name;             // unique
  std::string command = {};     // for /bin/sh
  int visit = 0;                // where it runs
  std::vector<int> after = {};  // tasks that must have finished before
  Nanos release = 0;            // does not start before
  Planned planned = {};
  std::optional<Nanos> timeout = {};  // of one attempt
  bool operator==(const ScriptTask&) const = default;
};

// One existence of an instance. It is created once every visit of `after` is gone, and destroyed
// after its last task.
struct Visit {
  int gpu = 0;  // index into Script::gpus
  hw::Placement place = {};
  int nvml_enum = 0;            // of the profile
  int size = 0;                 // memory slices
  std::vector<int> tasks = {};  // in order
  std::vector<int> after = {};  // visits before it that cannot exist beside it
  bool operator==(const Visit&) const = default;
};

struct Change {
  int visit = 0;
  bool create = true;  // else destroy
  // Nothing: not in the schedule; destroyed at the end, when nothing else is left to do.
  std::optional<Planned> planned = {};
  bool operator==(const Change&) const = default;
};

struct ScriptGpu {
  int device = 0;                    // index of the driver
  std::string model;                 // catalogue name
  std::vector<Change> changes = {};  // in order; every visit is created and destroyed once
  bool operator==(const ScriptGpu&) const = default;
};

struct Script {
  std::vector<ScriptGpu> gpus;
  std::vector<Visit> visits;
  std::vector<ScriptTask> tasks;
  Nanos planned_makespan = 0;
  bool operator==(const Script&) const = default;
};

// "1g.6gb@3"
std::string place_text(const Visit& visit);

// Sixteen hexadecimal digits that differ for scripts that do different things.
std::string fingerprint(const Script& script);

}  // namespace partita::exec
