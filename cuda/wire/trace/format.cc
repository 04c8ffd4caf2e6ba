#include "wire/trace/format.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <string_view>

namespace partita::remote {
namespace {

constexpr std::string_view kMagic = "partita remote trace\n";
constexpr std::size_t kMagicBytes = 24;  // with zeros behind

// Of a record; the body follows, then the bulk when it is kept whole.
struct StoredRecord {
  std::uint32_t checksum = 0;  // of the rest of this and of the body
  std::uint32_t bulk_checksum = 0;
  std::int64_t nanoseconds = 0;
  FrameHeader header = {};
  std::uint8_t direction = 0;
  std::uint8_t kept = 0;
  std::array<std::uint8_t, 6> reserved{};
};
static_assert(sizeof(StoredRecord) == 48);
static_assert(sizeof(TraceHead) == 24);

std::uint32_t checksum_of(const StoredRecord& stored, Bytes body) {
  const Bytes all = std::as_bytes(std::span(&stored, 1)).subspan(sizeof stored.checksum);
  return checksum_more(checksum_more(0, all), body);
}

class TraceParser {
 public:
  TraceParser(const std::string& file, Bytes bytes) : file_(file), all_(bytes), left_(bytes) {}

  Result<Trace> parse() {
    TRY(head());
    while (!left_.empty() && !trace_.torn) {
      if (auto done = record(); !done) return failed(done.error());
    }
    return std::move(trace_);
  }

 private:
  Result<void> head() {
    std::array<std::byte, kMagicBytes> magic{};
    std::memcpy(magic.data(), kMagic.data(), kMagic.size());
    if (left_.size() < kMagicBytes + sizeof(TraceHead) ||
        std::memcmp(left_.data(), magic.data(), kMagicBytes) != 0) {
      return bad_input(file_, "this is no recorded connection");
    }
    std::memcpy(&trace_.head, left_.data() + kMagicBytes, sizeof(TraceHead));
    left_ = left_.subspan(kMagicBytes + sizeof(TraceHead));
    if (trace_.head.version != kTraceVersion) return bad_input(file_, "it has another version");
    if (trace_.head.wire_version != kWireVersion || trace_.head.table != protocol_hash()) {
      return bad_input(file_, "it was recorded with another table of operations");
    }
    return {};
  }

  Result<void> record() {
    StoredRecord stored;
    if (left_.size() < sizeof stored) return torn();
    std::memcpy(&stored, left_.data(), sizeof stored);
    if (!is_legal(stored.header) || stored.direction > 1 || stored.kept > 2 ||
        stored.reserved != std::array<std::uint8_t, 6>{}) {
      return damaged();
    }
    Bytes rest = left_.subspan(sizeof stored);
    if (rest.size() < stored.header.body_bytes) return torn();
    const Bytes body = rest.first(stored.header.body_bytes);
    if (stored.checksum != checksum_of(stored, body)) return damaged();
    rest = rest.subspan(body.size());
    const auto kept = static_cast<KeptBulk>(stored.kept);
    const std::uint64_t bulk = kept == KeptBulk::whole ? stored.header.bulk_bytes : 0;
    if (rest.size() < bulk) return torn();
    if (kept == KeptBulk::whole && stored.bulk_checksum != checksum_more(0, rest.first(bulk))) {
      return damaged();
    }
    trace_.records.push_back({.nanoseconds = stored.nanoseconds,
                              .direction = static_cast<Direction>(stored.direction),
                              .kept = kept,
                              .checksum = stored.bulk_checksum,
                              .header = stored.header,
                              .body = body,
                              .bulk = rest.first(bulk)});
    left_ = rest.subspan(bulk);
    return {};
  }

  Result<void> torn() {
    trace_.torn = true;
    return {};
  }
  Result<void> damaged() const {
    return bad_input(fmt::format("{}: byte {}", file_, all_.size() - left_.size()),
                     "this record is damaged");
  }

  const std::string& file_;
  Bytes all_, left_;
  Trace trace_;
};

}  // namespace

std::uint32_t checksum_more(std::uint32_t sofar, Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(sofar, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::vector<std::byte> trace_head(const TraceHead& head) {
  std::vector<std::byte> bytes(kMagicBytes + sizeof head);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kMagicBytes, &head, sizeof head);
  return bytes;
}

std::vector<std::byte> trace_record(const TraceRecord& record) {
  StoredRecord stored{.bulk_checksum = record.checksum,
                      .nanoseconds = record.nanoseconds,
                      .header = record.header,
                      .direction = static_cast<std::uint8_t>(record.direction),
                      .kept = static_cast<std::uint8_t>(record.kept)};
  stored.checksum = checksum_of(stored, record.body);
  std::vector<std::byte> bytes(sizeof stored + record.body.size());
  std::memcpy(bytes.data(), &stored, sizeof stored);
  if (!record.body.empty()) {
    std::memcpy(bytes.data() + sizeof stored, record.body.data(), record.body.size());
  }
  return bytes;
}

Result<Trace> parse_trace(const std::string& file, Bytes bytes) {
  return TraceParser(file, bytes).parse();
}

}  // namespace partita::remote
