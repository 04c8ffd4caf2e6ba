// LoadTally: what became of the requests of one service, counted from when they were due. Memory is
// constant however long a run takes; percentiles are right to 0.2 %.
#pragma once

#include <cstdint>
#include <string>

#include "serve/load/token_load.h"
#include "sim/histogram.h"

namespace partita::serve {

enum class LoadFate : std::uint8_t {
  completed,  // 200
  refused,    // 503 or 429
  failed,     // any other answer, or none
  reset,      // failed: the connection was refused or broken
};

class LoadTally {
 public:
  // `slo`: 0: any time will do, of a language model.
  explicit LoadTally(sim::Nanos slo) : slo_(slo) {}

  // A request was due, and is sent or waits for a connection since so much later.
  void offer(sim::Nanos late);
  // An offered request has ended, so long after it was due; `kept`: what else is promised.
  void end(LoadFate fate, sim::Nanos latency, bool kept = true);
  // Why: "status 401"; empty: none has failed, or was refused.
  std::string first_failure = {}, first_refusal = {};
  TokenTally tokens = {};          // of a language model

  sim::Nanos slo() const { return slo_; }
  long offered() const { return lateness_.count(); }
  long completed() const { return latencies_.count(); }
  long refused() const { return refused_; }
  long failed() const { return failed_; }  // the reset ones among them
  long reset() const { return reset_; }
  long within_slo() const { return within_slo_; }
  long open() const { return offered() - completed() - refused_ - failed_; }
  // Share of the offered ones that completed within the SLO; 1 when none was offered.
  double slo_attainment() const;
  const sim::LatencyHistogram& latencies() const { return latencies_; }  // of the completed
  const sim::LatencyHistogram& lateness() const { return lateness_; }    // of the generator
  sim::Nanos worst() const { return worst_; }
  // The completed ones since the last call.
  sim::LatencyHistogram take_recent();

 private:
  sim::Nanos slo_;
  sim::LatencyHistogram latencies_, recent_, lateness_;
  long refused_ = 0, failed_ = 0, reset_ = 0, within_slo_ = 0;
  sim::Nanos worst_ = 0;
};

}  // namespace partita::serve
