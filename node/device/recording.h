// The document `kind: Recording`: calls of the door with their answers, in order. Written by
// RecordingDriver, answered from by replay() (adaptors.h). Internal to the adaptors. Limit:
// kMaxRecordedCalls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/call.h"

namespace partita::device {

inline constexpr std::size_t kMaxRecordedCalls = 1'000'000;

struct RecordedCall {
  Call call;
  Answer answer;  // an Error, or what the call's method gives
  bool operator==(const RecordedCall&) const = default;
};

// parse_recording(recording_json(calls)) gives the calls again, but for what cannot be printed.
std::string recording_json(const std::vector<RecordedCall>& calls);
Result<std::vector<RecordedCall>> parse_recording(const std::string& file, std::string_view text);

}  // namespace partita::device
