#include "wire/trace/trace_stats.h"

#include <algorithm>
#include <set>

namespace partita::remote {
namespace {

constexpr std::int32_t kNotReady = 600;  // CUDA's cudaErrorNotReady: an answer, no failure

struct Asked {
  std::string operation;
  std::int64_t at = 0;
};

std::uint64_t sum_of(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

}  // namespace

std::uint64_t TraceStats::all_calls() const { return sum_of(calls); }
std::uint64_t TraceStats::blocking_round_trips() const { return sum_of(blocking); }

TraceStats trace_stats(const Trace& trace) {
  TraceStats stats;
  std::map<std::uint32_t, Asked> asked;  // by request
  std::set<std::uint64_t> kernels;
  for (const TraceRecord& record : trace.records) {
    const FrameHeader& header = record.header;
    const bool up = record.direction == Direction::up;
    (up ? stats.bytes_up : stats.bytes_down) +=
        sizeof header + header.body_bytes + header.bulk_bytes;
    (up ? stats.bulk_up : stats.bulk_down) += header.bulk_bytes;
    const auto spec = spec_of(header, record.direction);
    const std::string name = spec ? std::string(spec->name) : "unknown";
    if (up) {
      ++stats.calls[name];
      if (header.request != 0) asked[header.request] = {name, record.nanoseconds};
      if (header.code == Launch::kSpec.code) {
        ++stats.launches;
        if (const auto launch = decode<Launch>(record.body)) kernels.insert(launch->kernel.value);
      }
    } else if ((header.code & kAnswer) == 0) {
      ++stats.notices[name];
    } else if (const auto found = asked.find(header.request); found != asked.end()) {
      ++stats.blocking[found->second.operation];
      stats.waited_nanoseconds[found->second.operation] +=
          std::max<std::int64_t>(0, record.nanoseconds - found->second.at);
      asked.erase(found);
      const auto outcome = outcome_of(header, record.body);
      stats.failures += !outcome || (outcome->status != 0 && outcome->status != kNotReady);
    }
  }
  stats.kernels = kernels.size();
  stats.unanswered = asked.size();
  if (!trace.records.empty()) {
    stats.nanoseconds = trace.records.back().nanoseconds - trace.records.front().nanoseconds;
  }
  return stats;
}

}  // namespace partita::remote
