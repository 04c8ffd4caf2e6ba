// CPUs to run on, as `taskset -c` and cpuset files spell them: "0,2-3".
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace partita::serve {

inline constexpr int kMaxCpu = 8191;

// Ascending, without repetition; not empty.
Result<std::vector<int>> parse_cpus(const std::string& flag, const std::string& text);
std::string cpus_text(const std::vector<int>& cpus);

// The cores of an instance of CPU units (hw/cpu_units.h), "2u@1": two of `usable` from number 1 on.
Result<std::vector<int>> cpus_of_units(const std::string& flag, const std::string& text,
                                       const std::vector<int>& usable);

// Pins this thread and whatever it starts from now on.
Result<void> pin_to(const std::vector<int>& cpus);

// Those that this thread may run on.
std::vector<int> usable_cpus();

}  // namespace partita::serve
