// What a supervisor of workers remembers: which worker of which segment is which process. Written
// whenever it changes, so that a supervisor that comes after a killed one can adopt its workers,
// and people can see them. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actuate/assignment.h"
#include "base/processes.h"
#include "base/result.h"

namespace partita::actuate {

using Environment = std::map<std::string, std::string>;

// One worker: a place among the `processes` of a segment, and the process in it.
struct WorkerRecord {
  AssignedSegment segment;  // without its throughput
  int index = 0;
  int port = 0;               // 0: none
  Pid pid = 0;                // 0: none runs now
  std::string identity = {};  // of the process, see Processes::identity
  int restarts = 0;
  int quick_failures = 0;               // in a row
  bool given_up = false;                // failed so often that it is tried seldom
  std::optional<int> last_status = {};  // of the process before this one
  std::vector<std::string> command = {};
  Environment environment = {};  // what its segment was prepared with
  bool operator==(const WorkerRecord&) const = default;
};

struct WorkersState {
  long revision = 0;                  // of the assignment that is followed
  std::vector<WorkerRecord> workers;  // by device, index
  bool operator==(const WorkersState&) const = default;
};

// The document `kind: Workers`; parse_workers(workers_json(s)) == s. Refused with FILE:LINE.
std::string workers_json(const WorkersState& state);
Result<WorkersState> parse_workers(const std::string& file, std::string_view text);

}  // namespace partita::actuate
