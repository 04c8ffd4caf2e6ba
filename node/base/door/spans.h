// Spans: one of each answered request that belongs to a sampled trace (W3C, flag 01), sent to a
// collector of OpenTelemetry (OTLP over HTTP, in JSON) by a thread of its own, once a second. A
// collector that is slow or gone keeps nobody waiting: kMostWaiting spans wait at most, and what
// cannot be sent is dropped and counted. One thread adds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace partita::serve {

struct AccessRecord;

class Spans {
 public:
  static constexpr std::size_t kMostWaiting = 8'192;

  // "http://127.0.0.1:4318": spans go to /v1/traces there. bad_input for what is no such URL.
  static Result<std::unique_ptr<Spans>> open(const std::string& url);
  ~Spans();  // sends what waits, within two seconds
  void add(const AccessRecord& record);
  std::uint64_t dropped() const;

 private:
  struct Impl;
  explicit Spans(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::serve
