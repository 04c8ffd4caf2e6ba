// Flags: checks for CLI11 options whose refusals are sentences, and whose value names are what
// help, man page and completion show. A value name with bars ("text|json") is a closed list; FILE,
// DIR, PATH, GPU, PLANNER, SCHEDULER and PLAN complete to what they say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/split.h"
#include "base/units.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace partita::cli {

// Restricts an option to a closed list of words.
CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words);

// Restricts a numeric option to [least, most]; NaN is refused.
CLI::Option* within(CLI::Option* option, double least, double most);

// Adds --seed: 0 .. 1.8e19. (CLI11 alone would wrap a negative number around.)
void add_seed(CLI::App& command, std::uint64_t& seed);
void add_require_share(CLI::App& command, double& share);
// Adds --fault-exit: 0 .. 255.
CLI::Option* add_fault_exit(CLI::App& command, int& status);

// "60s", "5m", "2h", "500ms" or plain seconds; positive and at most kMaxDuration.
inline constexpr Seconds kMaxDuration{1e6};
Result<Seconds> parse_duration(const std::string& flag, const std::string& text);

}  // namespace partita::cli
