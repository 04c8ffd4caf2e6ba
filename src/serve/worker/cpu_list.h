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

// Pins this thread and whatever it starts from now on.
Result<void> pin_to(const std::vector<int>& cpus);

// Those that this thread may run on.
std::vector<int> usable_cpus();

}  // namespace partita::serve
