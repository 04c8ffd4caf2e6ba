// GpuClock: at which clock and limit a GPU runs, so that the services on its MIG instances keep
// their SLOs with the least watts: the controller of `partita power run` (planners/power) with
// units and batches as the plan has them. Units are compute slices. No clock, no file; the same
// rates in the same order give the same settings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/power.h"
#include "planners/power/controller.h"

namespace partita::control {

// What runs on an instance.
struct ClockedSegment {
  std::string device, service, model;
  int gpcs = 0, batch = 0;
  double share = 0;  // of the service's requests
  double slo_ms = 0, percentile = 99;
  bool operator==(const ClockedSegment&) const = default;
};

// What a service asks for until the next look; nothing: it cannot be seen.
struct ClockedRate {
  std::optional<double> rps = {};
  std::optional<double> tail_ms = {};  // of its latency, as measured
};

struct GpuClockOptions {
  double poll_s = 10;     // between two looks
  double headroom = 0.3;  // share of a rate that is added to it
  double memory_s = 300;  // the highest rate of so long counts
};

class GpuClock {
 public:
  // infeasible, with the reason: the table does not have a model, a size or an SLO of these.
  static Result<GpuClock> make(const plan::ResponseTable& table,
                               std::vector<ClockedSegment> segments,
                               const GpuClockOptions& options);

  const std::vector<ClockedSegment>& segments() const { return segments_; }
  // What carries the most.
  plan::Setting most() const { return controller_->start(); }
  // Until the next look; `rates` by segment. What carries the most when one cannot be seen.
  plan::Setting decide(double at_s, const std::vector<ClockedRate>& rates);

 private:
  GpuClock(std::vector<ClockedSegment> segments, double headroom,
           std::unique_ptr<power::Controller> controller)
      : segments_(std::move(segments)), headroom_(headroom), controller_(std::move(controller)) {}

  std::vector<ClockedSegment> segments_;
  double headroom_ = 0;
  std::unique_ptr<power::Controller> controller_;
};

}  // namespace partita::control
