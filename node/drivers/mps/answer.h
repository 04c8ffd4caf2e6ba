// What nvidia-cuda-mps-control prints, parsed. Every function takes the whole answer to one
// command; what does not look like the answer is ErrorCode::environment with its first words, a
// refusal of NVIDIA's side keeps its words. Pure. Limit: kMaxAnswerBytes.
#pragma once

#include <string_view>
#include <vector>

#include "base/processes.h"
#include "base/result.h"

namespace partita::drivers::mps {

inline constexpr std::size_t kMaxAnswerBytes = 1u << 20;

// Process numbers, one a line, in the order of the answer: get_server_list, get_client_list.
Result<std::vector<Pid>> parse_pids(std::string_view answer);

// "50.0": get_default_active_thread_percentage, get_active_thread_percentage.
Result<double> parse_percentage(std::string_view answer);

// Whether this is the table of lspart: the daemon hands out static SM partitions, and percentages
// have no effect.
bool lists_partitions(std::string_view answer);

}  // namespace partita::drivers::mps
