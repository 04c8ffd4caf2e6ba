// Lists as Slurm writes them: host names "g[0-3,07],h1", tasks of an array "0-9,12-20:4%2". Limits:
// kMaxHosts names, kMaxArrayTasks tasks; one pair of brackets in a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::slurm {

inline constexpr std::size_t kMaxHosts = 65'536;
inline constexpr std::size_t kMaxArrayTasks = 100'000;

// The names, in order. Empty, "(null)": none. bad_input: brackets that do not close, numbers that
// are none, too many.
Result<std::vector<std::string>> host_names(std::string_view text);

// Tasks of an array that wait together, and how many of it may run at once (0: all).
struct ArrayTasks {
  std::vector<int> tasks;
  int most = 0;
  bool operator==(const ArrayTasks&) const = default;
};
Result<ArrayTasks> array_tasks(std::string_view text);

}  // namespace partita::slurm
