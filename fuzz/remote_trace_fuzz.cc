// Recorded connections: what is read is written to the same bytes, described and counted.
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "wire/trace/format.h"
#include "wire/trace/kernel_record.h"
#include "wire/trace/trace_stats.h"
#include "target.h"

FUZZ_TARGET(remote_trace) {
  using partita::remote::Bytes;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto trace = partita::remote::parse_trace("fuzz", bytes);
  if (!trace) {
    CHECK(trace.error().context.starts_with("fuzz"));
    return 0;
  }
  std::vector<std::byte> again = trace_head(trace->head);
  for (const auto& record : trace->records) {
    const auto one = trace_record(record);
    again.insert(again.end(), one.begin(), one.end());
    again.insert(again.end(), record.bulk.begin(), record.bulk.end());
    CHECK(!describe(record.header, record.body, record.direction).empty());
  }
  CHECK(again.size() <= bytes.size() && (trace->torn || again.size() == bytes.size()));
  CHECK(std::equal(again.begin(), again.end(), bytes.begin()));
  const auto stats = trace_stats(*trace);
  CHECK(stats.blocking_round_trips() + stats.unanswered <= stats.all_calls());
  const auto recorded = recorded_kernels(*trace);
  CHECK(recorded.requests <= recorded.kernels.size() && !to_csv(recorded).empty());
  return 0;
}
