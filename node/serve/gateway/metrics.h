// What the gateway says of itself: Prometheus text with Triton's names where Triton has them, and
// Triton's statistics. Pure.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/terms.h"
#include "serve/brain/service_brain.h"
#include "serve/front/backend.h"
#include "serve/gateway/keys.h"
#include "serve/gateway/sequence_moves.h"
#include "serve/wire/frames.h"

namespace partita::serve {

struct SegmentTotals {  // of a device
  long batches = 0, items = 0;
  Nanos busy = 0;
  int ready_workers = 0;
  int held = 0;  // models of a set
};

// Up to each of these, ascending, cold starts are counted.
inline constexpr std::array<Nanos, 9> kColdBounds = {50'000'000,    100'000'000,    250'000'000,
                                                     500'000'000,   1'000'000'000,  2'500'000'000,
                                                     5'000'000'000, 10'000'000'000, plan::kForever};

// Of a set of models.
struct SetTotals {
  long warm = 0, loads = 0, failures = 0, evictions = 0;  // warm: rows whose model was loaded
  Nanos load_ns = 0;                                      // of all loads
  // Requests that waited for a load: from head to answer.
  long colds = 0, cold_in_time = 0;  // in time: by what is promised of them, or by the SLO
  Nanos cold_ns = 0;
  std::array<long, kColdBounds.size()> cold_within = {};  // cumulative

  void add(const SetTally& tally, std::size_t rows);
  void cold(const plan::Terms& terms, Nanos latency);
};

// Within which a cold request of a set is promised to be answered.
Millis promised_cold(const plan::Terms& terms);

// Of a service whose answers are kept.
struct CacheTotals : KeptAnswers {
  long hits = 0, misses = 0, merged = 0;  // merged: had the answer of one that was under way
  Nanos hit_ns = 0, miss_ns = 0;          // of looking
  long evictions = 0;
  std::size_t most_bytes = 0;
};

// Sums over the requests of a service, beside what its brain counts.
struct ServiceTotals {
  Nanos success_ns = 0, fail_ns = 0, execution_ns = 0;  // execution as the workers say
  std::uint64_t last_inference_ms = 0;                  // of the wall clock
  // Requests that were offered and are in no count of what came of them: withdrawn before they had
  // to be answered, or never whole; given up by clients that had waited for longer.
  long withdrawn = 0, given_up = 0;
  // Of inputs with open sizes, as the workers ran them.
  std::uint64_t values = 0, padding = 0;
  SetTotals set = {};
};

// Of a pipeline: rows of tensors that went from step to step.
struct StepTensors {
  long in_common = 0, copied = 0;
};

struct ServiceSnapshot {
  plan::Terms terms;
  Nanos p50 = 0, p99 = 0;
  double capacity_rps = 0, rate_rps = 0;
  int queued = 0, ready_workers = 0;
  std::size_t slots = 0, free_slots = 0;
  ServiceCounters counters = {};
  ServiceTotals totals = {};
  std::map<std::string, SegmentTotals> segments = {};
  std::map<std::string, KeyUsage, std::less<>> usage = {};
  std::size_t sequences = 0;
  SequenceMoves::Totals moves = {};
  std::optional<CacheTotals> cache = {};
  std::vector<actuate::FanOutCounts> fan_outs = {};  // of a pipeline
  std::optional<StepTensors> between = {};
};

std::string prometheus_text(const std::vector<ServiceSnapshot>& services);
ServiceStatistics statistics_of(const ServiceSnapshot& service);

}  // namespace partita::serve
