#include "decide/serving_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table.h"
#include "base/terminal.h"
#include "forms/latency_svg.h"

namespace partita::decide {

std::string percent(double share) {
  return fmt::format("{:.2f} %", std::floor(share * 1e4 + 1e-9) / 100);
}

namespace {

const plan::Service* service_of(const plan::ServingProblem& problem, const std::string& name) {
  const auto found = std::ranges::find(problem.services, name, &plan::Service::name);
  return found == problem.services.end() ? nullptr : &*found;
}

// What language models did, beside what is promised of them.
Table token_table(const plan::ServingProblem& problem, const sim::ServingReport& report) {
  Table tokens{{"LANGUAGE MODEL", "TTFT p50", "p99 ms", "PROMISED", "TPOT p50", "p99 ms",
                "PROMISED", "TOKENS /s"},
               {}};
  for (const sim::ServiceReport& row : report.services) {
    if (!row.tokens) continue;
    const plan::Service* const service = service_of(problem, row.name);
    const auto promised = [&](Millis plan::TokenTerms::*time) -> std::string {
      if (!service || !service->tokens || (*service->tokens.*time).value <= 0) return "-";
      return fmt::format("{:g} (p{:g})", (*service->tokens.*time).value, service->percentile);
    };
    tokens.rows.push_back(
        {row.name, fmt::format("{:.1f}", row.tokens->ttft_p50.value),
         fmt::format("{:.1f}", row.tokens->ttft_p99.value), promised(&plan::TokenTerms::ttft),
         fmt::format("{:.2f}", row.tokens->tpot_p50.value),
         fmt::format("{:.2f}", row.tokens->tpot_p99.value), promised(&plan::TokenTerms::tpot),
         fmt::format("{:.0f}", row.tokens->tokens_per_s)});
  }
  return tokens;
}

}  // namespace

std::string report_text(const plan::ServingProblem& problem, const sim::ServingReport& report,
                        const sim::ServingOptions& options) {
  Table table{{"SERVICE", "RATE /s", "OFFERED", "COMPLETED", "IN SLO", "SLO ms", "p50 ms", "p95 ms",
               "p99 ms"},
              {}};
  for (const sim::ServiceReport& row : report.services) {
    const plan::Service* const service = service_of(problem, row.name);
    const std::string slo = service == nullptr || service->slo.value <= 0
                                ? "-"
                                : fmt::format("{:g}", service->slo.value);
    const auto latency = [&](Millis time) {
      return row.completed > 0 ? fmt::format("{:.1f}", time.value) : std::string("-");
    };
    table.rows.push_back({row.name, row.rate.value > 0 ? fmt::format("{:g}", row.rate.value) : "-",
                          fmt::format("{}", row.offered), fmt::format("{}", row.completed),
                          row.offered > 0 ? percent(row.slo_attainment) : "-", slo,
                          latency(row.p50), latency(row.p95), latency(row.p99)});
  }
  const Table tokens = token_table(problem, report);
  Table sets{{"MODELS OF", "COLD", "IN TIME", "p50 ms", "p99 ms"}, {}};
  for (const sim::ServiceReport& row : report.services)
    if (row.models)
      sets.rows.push_back({row.name, fmt::format("{}", row.models->cold),
                           percent(row.models->cold_in_time),
                           fmt::format("{:.1f}", row.models->cold_p50.value),
                           fmt::format("{:.1f}", row.models->cold_p99.value)});
  long refused = 0;
  for (const sim::ServiceReport& row : report.services) refused += row.refused;
  return to_string(table) + (tokens.rows.empty() ? "" : "\n" + to_string(tokens)) +
         (sets.rows.empty() ? "" : "\n" + to_string(sets)) +
         (refused > 0 ? fmt::format("\n{} refused at once, as the gateway would\n",
                                    count_text(refused, "request"))
                      : "") +
         fmt::format(
             "\ninternal slack {}, external fragmentation {}; load {:g}, {:g} s, seed {}, log "
             "{:016x}\n",
             percent(report.internal_slack), percent(report.external_fragmentation), report.load,
             options.duration.value, options.seed, report.log_hash);
}

std::string report_svg(const plan::ServingProblem& problem, const sim::ServingReport& report,
                       const sim::ServingOptions& options) {
  std::vector<forms::LatencyRow> rows;
  for (const sim::ServiceReport& row : report.services) {
    const auto service = std::ranges::find(problem.services, row.name, &plan::Service::name);
    const bool known = service != problem.services.end();
    rows.push_back({row.name, known ? service->slo.value : 0, row.p50.value, row.p95.value,
                    row.p99.value, row.slo_attainment,
                    (known ? service->percentile : plan::Service{}.percentile) / 100});
  }
  const std::string title =
      fmt::format("Simulated: {} for {}", count_text(std::ssize(rows), "service"),
                  duration_text(options.duration.value));
  const std::string subtitle = fmt::format(
      "load {:g} · seed {} · internal slack {}, external fragmentation {}", report.load,
      options.seed, percent(report.internal_slack), percent(report.external_fragmentation));
  return forms::latency_svg(title, subtitle, std::move(rows));
}

}  // namespace partita::decide
