// A line of JSON per answered request, in a file that is renamed when it has grown and of which a
// bounded number is kept, and a span where a collector is named. Lines are gathered and written by
// flush(); what cannot be written is dropped and counted, since a full disk must not stop the
// service.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/door/spans.h"
#include "base/result.h"

namespace partita::serve {

struct AccessLogOptions {
  std::string file = {};  // none: no log
  std::string otlp = {};  // a collector of spans (spans.h); none: no spans
  std::size_t rotate_bytes = 64u << 20;
  int keep = 5;  // FILE.1 to FILE.5
};

struct AccessRecord {
  std::int64_t unix_ns = 0;  // when the head was there
  std::string_view client = {}, method = {}, path = {}, service = {}, trace_parent = {};
  int status = 0, items = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::int64_t queue_ns = 0, total_ns = 0;  // from submit to the answer; from head to its last byte
};

std::int64_t unix_ns();  // now

class AccessLog {
 public:
  static Result<std::unique_ptr<AccessLog>> open(const AccessLogOptions& options);
  ~AccessLog();
  void add(const AccessRecord& record);
  void flush();
  std::uint64_t dropped() const { return dropped_; }

 private:
  explicit AccessLog(const AccessLogOptions& options) : options_(options) {}
  bool reopen();
  void rotate();
  AccessLogOptions options_;
  std::unique_ptr<Descriptor> file_;  // null: spans alone
  std::unique_ptr<Spans> spans_;
  std::size_t written_ = 0;
  std::string lines_;
  std::uint64_t line_count_ = 0, dropped_ = 0;
};

}  // namespace partita::serve
