#include "serve/load/load_tally.h"

#include <algorithm>

namespace partita::serve {

void LoadTally::offer(sim::Nanos late) { lateness_.add(std::max<sim::Nanos>(late, 0)); }

void LoadTally::end(LoadFate fate, sim::Nanos latency, bool kept) {
  switch (fate) {
    case LoadFate::completed:
      latencies_.add(latency);
      recent_.add(latency);
      worst_ = std::max(worst_, latency);
      if (kept && (slo_ == 0 || latency <= slo_)) ++within_slo_;
      return;
    case LoadFate::refused:
      ++refused_;
      return;
    case LoadFate::reset:
      ++reset_;
      [[fallthrough]];
    case LoadFate::failed:
      ++failed_;
      return;
  }
}

double LoadTally::slo_attainment() const {
  if (offered() == 0) return 1;
  return static_cast<double>(within_slo_) / static_cast<double>(offered());
}

sim::LatencyHistogram LoadTally::take_recent() {
  sim::LatencyHistogram taken = recent_;
  recent_.clear();
  return taken;
}

}  // namespace partita::serve
