#include "serving/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table.h"

namespace partita::cli {

std::string percent(double share) {
  return fmt::format("{:.2f} %", std::floor(share * 1e4 + 1e-9) / 100);
}

std::string report_text(const plan::ServingProblem& problem, const sim::ServingReport& report,
                        const sim::ServingOptions& options) {
  Table table{{"SERVICE", "RATE /s", "OFFERED", "COMPLETED", "IN SLO", "SLO ms", "p50 ms", "p95 ms",
               "p99 ms"},
              {}};
  for (const sim::ServiceReport& row : report.services) {
    const auto service =
        std::find_if(problem.services.begin(), problem.services.end(),
                     [&row](const plan::Service& candidate) { return candidate.name == row.name; });
    const std::string slo =
        service == problem.services.end() ? "-" : fmt::format("{:g}", service->slo.value);
    table.rows.push_back({row.name, row.rate.value > 0 ? fmt::format("{:g}", row.rate.value) : "-",
                          fmt::format("{}", row.offered), fmt::format("{}", row.completed),
                          percent(row.slo_attainment), slo, fmt::format("{:.1f}", row.p50.value),
                          fmt::format("{:.1f}", row.p95.value),
                          fmt::format("{:.1f}", row.p99.value)});
  }
  return to_string(table) +
         fmt::format(
             "\ninternal slack {}, external fragmentation {}; load {:g}, {:g} s, seed {}, log "
             "{:016x}\n",
             percent(report.internal_slack), percent(report.external_fragmentation), report.load,
             options.duration.value, options.seed, report.log_hash);
}

}  // namespace partita::cli
