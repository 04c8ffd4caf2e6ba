// Answers of nvidia-cuda-mps-control: what is asked for, within its bounds, or a refusal.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "drivers/mps/answer.h"
#include "target.h"

FUZZ_TARGET(mps_answer) {
  namespace mps = partita::drivers::mps;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto pids = mps::parse_pids(text))
    for (const partita::Pid pid : *pids) CHECK(pid > 0);
  if (const auto percentage = mps::parse_percentage(text))
    CHECK(*percentage >= 0 && *percentage <= 100);
  static_cast<void>(mps::lists_partitions(text));
  return 0;
}
