#include "decide/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/nearest.h"

namespace partita::decide {
namespace {

template <class Simulate>
auto timed(const std::function<double()>& cpu_ms, Simulate run)
    -> Result<Timed<typename decltype(run())::value_type>> {
  constexpr double kShortestMs = 1e-6;
  const double begin = cpu_ms ? cpu_ms() : 0;
  auto report = TRY(run());
  Timed<typename decltype(run())::value_type> result{std::move(report), 0};
  if (cpu_ms)
    result.events_per_second =
        static_cast<double>(result.report.events) * 1e3 / std::max(cpu_ms() - begin, kShortestMs);
  return result;
}

}  // namespace

Result<Timed<sim::ServingReport>> simulate(const plan::ServingProblem& problem,
                                           const plan::Judged<plan::ServingPlan>& plan,
                                           const sim::ServingOptions& options,
                                           const std::function<double()>& cpu_ms) {
  return timed(cpu_ms, [&] { return sim::simulate(problem, *plan, options); });
}

plan::ServingPlan with_overload(const plan::ServingProblem& problem,
                                const plan::Judged<plan::ServingPlan>& plan) {
  return sim::with_overload(problem, *plan).value_or(*plan);
}

Result<Timed<sim::BatchReport>> simulate(const plan::BatchProblem& problem,
                                         const plan::Judged<plan::BatchSchedule>& schedule,
                                         const sim::BatchOptions& options,
                                         const std::function<double()>& cpu_ms) {
  return timed(cpu_ms, [&] { return sim::simulate(problem, *schedule, options); });
}

const sim::ServiceReport* worst_service(const sim::ServingReport& report) {
  const auto worst =
      std::ranges::min_element(report.services, {}, &sim::ServiceReport::slo_attainment);
  return worst == report.services.end() ? nullptr : &*worst;
}

Result<void> check_traces(const std::string& flag, const std::vector<sim::Trace>& traces,
                          const plan::ServingProblem& problem) {
  std::vector<std::string> names;
  for (const plan::Service& service : problem.services) names.push_back(service.name);
  for (const sim::Trace& trace : traces) {
    if (std::ranges::count(names, trace.service) > 0) continue;
    return bad_input(flag, fmt::format("the trace names an unknown service '{}'{}", trace.service,
                                       did_you_mean(trace.service, names)));
  }
  return {};
}

}  // namespace partita::decide
