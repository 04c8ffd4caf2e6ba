#include "serve/worker/cpu_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "base/parse_number.h"
#include "base/split.h"

namespace partita::serve {
namespace {

// A set of CPUs as the kernel wants it, large enough for every machine.
constexpr std::size_t kSets = (kMaxCpu + CPU_SETSIZE) / CPU_SETSIZE;
struct CpuSet {
  cpu_set_t sets[kSets] = {};
  static constexpr std::size_t kBytes = sizeof sets;
};

}  // namespace

Result<std::vector<int>> parse_cpus(const std::string& flag, const std::string& text) {
  std::set<int> cpus;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> ends = split(part, '-');
    const auto first = parse_number<int>(ends.front()), last = parse_number<int>(ends.back());
    if (ends.size() > 2 || !first || !last || *first < 0 || *last < *first || *last > kMaxCpu) {
      return bad_input(flag, fmt::format("'{}': say CPUs as in 0,2-3", text));
    }
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

std::string cpus_text(const std::vector<int>& cpus) {
  return fmt::format("{}", fmt::join(cpus, ","));
}

Result<void> pin_to(const std::vector<int>& cpus) {
  CpuSet set;
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), CpuSet::kBytes, set.sets);
  if (::sched_setaffinity(0, CpuSet::kBytes, set.sets) == 0) return {};
  return environment_error(
      "--cpus", fmt::format("cannot run on CPUs {}: {}", cpus_text(cpus), std::strerror(errno)));
}

std::vector<int> usable_cpus() {
  CpuSet set;
  std::vector<int> cpus;
  if (::sched_getaffinity(0, CpuSet::kBytes, set.sets) != 0) return {0};
  for (int cpu = 0; cpu <= kMaxCpu; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), CpuSet::kBytes, set.sets)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace partita::serve
