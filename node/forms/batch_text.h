// How tables and files write what belongs to batches: sizes of instances, exact times. Internal to
// the forms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "forms/vocabulary.h"
#include "plan/batch.h"

namespace partita::forms {

inline constexpr std::string_view kTimePrefix = "time_s_";

// Compute slices of the plain MIG profiles of a GPU model, ascending: 1, 2, 3, 4, 7 of an A100.
std::vector<int> sizes_of(const hw::GpuModel& model);
// "time_s_2g"
std::string time_column(int size);
// Seconds with as many digits as the time has: "21.697", "-0.000000001".
std::string exact_seconds(Nanos time);

}  // namespace partita::forms
