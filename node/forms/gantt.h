// What the text and the SVG pictures of schedules share: which slices a task or a reconfiguration
// fills, nice ticks, sentences about the whole. Internal to the forms. Takes any schedule, also one
// the judge would refuse: times are cut to 0..kMaxBatchTime, slices to those of the GPU.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "forms/picture.h"
#include "forms/vocabulary.h"
#include "hw/catalogue.h"
#include "plan/batch.h"

namespace partita::forms {

inline constexpr Rgb kCreateColour{20, 80, 240};
inline constexpr Rgb kDestroyColour{180, 60, 0};

// A task or a reconfiguration on the slices and the time it fills.
struct Bar {
  int first = 0, slices = 1;  // memory slices
  Nanos begin = 0, end = 0;
  const ScheduledTask* task = nullptr;  // exactly one of the two
  const Reconfiguration* change = nullptr;
};

struct GpuRow {  // one GPU
  int gpu = 0;
  std::string_view model;  // empty for a GPU that the schedule does not list
  int slices = 1;
  std::vector<Bar> tasks, changes;  // in the schedule's order
};

// Every GPU that the schedule lists or uses, ascending.
std::vector<GpuRow> gpu_rows(const BatchSchedule& schedule, const hw::Catalogue& catalogue);

// The end of the last task or reconfiguration; at least one nanosecond.
Nanos last_end(const BatchSchedule& schedule);

// 0, 10 s, 20 s ...: multiples of 1, 2 or 5 times a power of ten up to `end`, at most `most` + 1.
std::vector<Nanos> ticks(Nanos end, int most);

// "2g.12gb@0"
std::string instance_text(const ScheduledTask& task);
// "28.43 s", "24.3 ms".
std::string seconds_text(Nanos time);
// The unit that fits an axis up to `end`: ns, us, ms or s.
struct AxisUnit {
  double nanos = 1e9;
  const char* name = "s";
  std::string number(Nanos time) const;  // without the unit
};
AxisUnit axis_unit(Nanos end);
// Two lines below rows of `cells` columns after `head`: a ruler from 0 to `end` with about a tick
// per `columns_per_tick`, and a number under each tick that has the room, with the unit behind.
std::string axis_text(Nanos end, int head, int cells, int columns_per_tick);
// "makespan 28.43 s on 1 × A30-24GB (lower bound 28.1 s: at most 1.2 % above the optimum)"
std::string makespan_text(const BatchSchedule& schedule);
// "4 creates take 0.5 s, 3 destroys 0.3 s; tasks keep 87 % of the compute slices busy"
std::string effort_text(const BatchSchedule& schedule, const hw::Catalogue& catalogue);

}  // namespace partita::forms
