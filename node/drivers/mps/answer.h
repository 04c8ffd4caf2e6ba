// What nvidia-cuda-mps-control prints, parsed. Every function takes the whole answer to one
// command; what does not look like the answer is ErrorCode::environment with its first words, a
// refusal of NVIDIA's side keeps its words. Pure. Limit: kMaxAnswerBytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/processes.h"
#include "base/result.h"
#include "base/units.h"

namespace partita::drivers::mps {

inline constexpr std::size_t kMaxAnswerBytes = 1u << 20;

// Process numbers, one a line, in the order of the answer: get_server_list, get_client_list.
Result<std::vector<Pid>> parse_pids(std::string_view answer);

// "50.0": get_default_active_thread_percentage, get_active_thread_percentage.
Result<double> parse_percentage(std::string_view answer);

// "900M", "10G", "900 MB": get_default_device_pinned_mem_limit.
Result<Mib> parse_memory(std::string_view answer);

// Static SM partitions (drivers from CUDA 13.1 on). A chunk is the smallest number of SMs that can
// be given away: 2, 4 or 8, by architecture.
struct SmPartition {
  std::string id;  // as the table shows it
  int chunks = 0, sms = 0;
  bool used = false;  // a client runs in it
  bool operator==(const SmPartition&) const = default;
};
struct SmTable {
  int free_chunks = 0, used_chunks = 0, free_sms = 0, used_sms = 0;
  std::vector<SmPartition> partitions;
  bool operator==(const SmTable&) const = default;
};
// The table of lspart: partitions in its order, sums over its devices.
Result<SmTable> parse_lspart(std::string_view answer);

// The id in the answer to sm_partition add, "DEVICE/ID", with or without words around it; what
// CUDA_MPS_SM_PARTITION takes.
Result<std::string> parse_new_partition(std::string_view answer, std::string_view device);

}  // namespace partita::drivers::mps
