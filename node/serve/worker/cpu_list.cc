#include "serve/worker/cpu_list.h"

#include <fmt/format.h>
#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "base/append.h"
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
    if (ends.size() > 2 || !first || !last || *first < 0 || *last < *first || *last > kMaxCpu)
      return bad_input(flag, fmt::format("'{}': say CPUs as in 0,2-3", text));
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

std::string cpus_text(const std::vector<int>& cpus) {
  return joined(cpus, ",");
}

Result<std::vector<int>> cpus_of_units(const std::string& flag, const std::string& text,
                                       const std::vector<int>& usable) {
  const std::vector<std::string> parts = split(text, '@');
  const bool sized = parts.size() == 2 && parts[0].ends_with('u');
  const int units =
      parse_number<int>(parts[0].substr(0, sized ? parts[0].size() - 1 : 0)).value_or(0);
  const int start = parse_number<int>(parts.back()).value_or(-1);
  if (!sized || units < 1 || start < 0)
    return bad_input(flag, fmt::format("'{}': say an instance as in 2u@1", text));
  const auto have = static_cast<int>(usable.size());
  if (units > have || start > have - units) {
    return bad_input(flag,
                     fmt::format("{} reaches beyond the {} CPUs of this machine", text, have));
  }
  return std::vector<int>(usable.begin() + start, usable.begin() + start + units);
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
