// A picture of how services did against their objectives: per service a bar of its latencies (p50,
// p95, p99) on a scale where the objective is one line for all, and the share that was in time.
// Self-contained, well-formed XML. Limit: kMostLatencyRows services, the worst first.
#pragma once

#include <string>
#include <vector>

namespace partita::forms {

inline constexpr std::size_t kMostLatencyRows = 60;

struct LatencyRow {
  std::string name;
  double slo_ms = 0;  // 0: none is known
  double p50_ms = 0, p95_ms = 0, p99_ms = 0;
  double attainment = 0;  // share in time
  double wanted = 0.99;   // share that was promised
};

std::string latency_svg(const std::string& title, const std::string& subtitle,
                        std::vector<LatencyRow> rows);

}  // namespace partita::forms
