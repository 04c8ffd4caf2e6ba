// Sends the client's frames of a recorded connection to a server again and compares the answers.
// A frame is sent when everything that the server had said before it in the recording has been said
// again. Bulk that was not kept is sent as zeros. Addresses are moved when the new arena lies
// elsewhere: those in fields, and words of parameter blocks and of small copies to the device that
// lie in the old arena.
#pragma once

#include <string>
#include <vector>

#include "wire/net/channel.h"
#include "wire/trace/format.h"

namespace partita::remote {

struct ReplayOptions {
  std::string token, shape;
  bool at_recorded_times = false;             // else as fast as the server lets it
  Nanos patience = std::chrono::seconds(60);  // without anything from the server
};

struct ReplayDifference {
  std::size_t record = 0;  // the recorded answer's place in the file
  std::string operation;
  std::int32_t recorded = 0, now = 0;  // status
};

struct ReplayResult {
  std::uint64_t sent = 0, answers = 0;
  std::vector<ReplayDifference> differences;
  Nanos took{};
};

// lost, timeout: the server went, or said too little. bad_input: the recording does not begin with
// a hello, or lacks the image of a module. denied: the server refuses the session.
Result<ReplayResult> replay(const Trace& trace, Channel& channel, const ReplayOptions& options);

}  // namespace partita::remote
