#include "control/gpu_clock.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::control {
namespace {

constexpr double kAnyRate = 1e-9;  // what is asked for is not known yet

// The largest batch of the table that the worker makes; 0: none.
int batch_of(const plan::ModelResponse& model, const ClockedSegment& segment) {
  int best = 0;
  for (const plan::PowerPoint& point : model.points)
    if (point.units == segment.gpcs && point.batch <= segment.batch)
      best = std::max(best, point.batch);
  return best;
}

}  // namespace

Result<GpuClock> GpuClock::make(const plan::ResponseTable& table,
                                std::vector<ClockedSegment> segments,
                                const GpuClockOptions& options) {
  plan::PowerProblem problem{.table = table, .services = {}};
  power::ControlOptions control{.poll = {options.poll_s}};
  control.memory = {options.memory_s};
  for (const ClockedSegment& one : segments) {
    const plan::ModelResponse* model = table.find(one.model);
    const int batch = model == nullptr ? 0 : batch_of(*model, one);
    if (batch == 0)
      return failed({ErrorCode::infeasible,
                     fmt::format("the response table of {} has no row of model '{}' on {} units "
                                 "with batches up to {}",
                                 table.gpu, one.model, one.gpcs, one.batch),
                     ""});
    problem.services.push_back({one.device, one.model, {kAnyRate}, {one.slo_ms}, one.percentile});
    control.given.push_back({one.gpcs, batch});
  }
  auto controller = TRY(power::make_controller(problem, control));
  return GpuClock(std::move(segments), options.headroom, std::move(controller));
}

plan::Setting GpuClock::decide(double at_s, const std::vector<ClockedRate>& rates) {
  plan::Observation seen{.at = {at_s}, .services = {}};
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (!rates[s].rps) return most();
    plan::ServiceSeen& one = seen.services.emplace_back();
    one.rate = {*rates[s].rps * segments_[s].share * (1 + headroom_)};
    if (rates[s].tail_ms) one.p95 = Millis{*rates[s].tail_ms};
  }
  return controller_->decide(seen);
}

}  // namespace partita::control
