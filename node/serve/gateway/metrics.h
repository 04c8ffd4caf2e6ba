// What the gateway says of itself: Prometheus text with Triton's names where Triton has them, and
// Triton's statistics. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/terms.h"
#include "serve/brain/service_brain.h"
#include "serve/front/backend.h"
#include "serve/gateway/keys.h"
#include "serve/gateway/sequence_moves.h"

namespace partita::serve {

struct SegmentTotals {  // of a device
  long batches = 0, items = 0;
  Nanos busy = 0;
  int ready_workers = 0;
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
};

std::string prometheus_text(const std::vector<ServiceSnapshot>& services);
ServiceStatistics statistics_of(const ServiceSnapshot& service);

}  // namespace partita::serve
