// The file of a recorded connection: a head, then one record per frame, each with its length and
// CRC-32. Whoever stops half-way leaves a last record that is torn and dropped; damage anywhere
// else is refused. The reader is fuzzed and takes no memory that the file does not have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/trace/describe.h"

namespace partita::remote {

inline constexpr std::uint32_t kTraceVersion = 1;

// What of a frame's bulk is kept.
enum class KeptBulk : std::uint8_t { length, checksum, whole };

struct TraceHead {
  std::uint32_t version = kTraceVersion;
  std::uint32_t wire_version = kWireVersion;
  std::uint64_t table = protocol_hash();
  std::int64_t began_at = 0;  // seconds since 1970
  bool operator==(const TraceHead&) const = default;
};

struct TraceRecord {
  std::int64_t nanoseconds = 0;  // since the beginning
  Direction direction = Direction::up;
  KeptBulk kept = KeptBulk::length;
  std::uint32_t checksum = 0;  // CRC-32 of the bulk, unless only its length is kept
  FrameHeader header = {};
  Bytes body = {};  // into the file's bytes
  Bytes bulk = {};  // when it is kept whole
};

struct Trace {
  TraceHead head;
  std::vector<TraceRecord> records;  // they refer to the file's bytes
  bool torn = false;                 // the last record was not whole
};

std::vector<std::byte> trace_head(const TraceHead& head);
// A record but for the bulk, which follows when it is kept whole.
std::vector<std::byte> trace_record(const TraceRecord& record);

// Refused: another kind of file, another version or table of operations, damage.
Result<Trace> parse_trace(const std::string& file, Bytes bytes);

// CRC-32, to be continued with what was returned; 0 at first.
std::uint32_t checksum_more(std::uint32_t sofar, Bytes bytes);

}  // namespace partita::remote
