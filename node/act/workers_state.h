// What a supervisor of workers remembers: which worker of which segment is which process. Written
// whenever it changes, so that a supervisor that comes after a killed one can adopt its workers,
// apply can tell whether they have let go of a device (workers_on.h), and people can see them.
// Pure, but for workers_path().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "act/assignment.h"
#include "base/processes.h"
#include "base/result.h"

namespace partita::actuate {

using Environment = std::map<std::string, std::string>;

// Whether a worker answers, as far as anybody has asked. starting: not yet; silent: not any more.
enum class Answering { unknown, starting, ready, leaving, silent };

// One worker: a place among the `processes` of a segment, and the process in it.
struct WorkerRecord {
  AssignedSegment segment;  // without its throughput
  int index = 0;
  int port = 0;               // 0: none
  Pid pid = 0;                // 0: none runs now
  std::string identity = {};  // of the process, see Processes::identity
  int restarts = 0;
  int quick_failures = 0;  // in a row
  bool given_up = false;   // failed so often that it is tried seldom
  Answering answering = Answering::unknown;
  std::optional<int> last_status = {};  // of the process before this one
  std::optional<double> start_s = {};   // that the last start took until it was ready
  std::vector<std::string> command = {};
  Environment environment = {};  // what its segment was prepared with
  bool operator==(const WorkerRecord&) const = default;
};

// Which process wrote it; it may be gone.
struct SupervisorRecord {
  Pid pid = 0;  // 0: not told
  std::string identity = {};
  bool operator==(const SupervisorRecord&) const = default;
};

struct WorkersState {
  // Of the assignment that is followed: nothing is started any more because of an older one. 0: the
  // supervisor has only just begun.
  long revision = 0;
  SupervisorRecord supervisor = {};
  std::vector<WorkerRecord> workers;  // by device, index
  bool operator==(const WorkersState&) const = default;
};

// The state file of the supervisor that follows the assignment in `state_dir`, with links resolved:
// who means the same file gets the same path.
std::string workers_path(const std::string& state_dir);

// By its environment a worker is known to whoever looks for it: PARTITA_WORKER names its place,
// "STATE_FILE:DEVICE:INDEX".
inline constexpr const char* kWorkerVariable = "PARTITA_WORKER";
std::string worker_tag(const std::string& state_file, const std::string& device, int index);
// Device and index in the tag of a worker; nothing when it is not one of `state_file`.
std::optional<std::pair<std::string, int>> worker_place(std::string_view tag,
                                                        const std::string& state_file);

// "ready"; "" for unknown.
const char* to_string(Answering answering);

// "worker 0 of chat, process 4711"
std::string to_string(const WorkerRecord& worker);

// The document `kind: Workers`; parse_workers(workers_json(s)) == s. Refused with FILE:LINE.
std::string workers_json(const WorkersState& state);
Result<WorkersState> parse_workers(const std::string& file, std::string_view text);
DocumentKind workers_kind();

}  // namespace partita::actuate
