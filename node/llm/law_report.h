// How well laws say what was measured: per configuration the mean of relative errors, of the points
// a law was learned from or of points that it has not seen, a whole concurrency or a whole shape at
// a time. Kind LawReport.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "llm/law.h"

namespace partita::llm {

enum class LeftOut { nothing, concurrency, shape };

// Configurations with fewer are not counted: there is too little to learn from.
inline constexpr int kFewestShapes = 3, kFewestPoints = 12;

// Of percentiles of a simulated engine (engine/tails.h), relative to those that were measured.
struct TailErrors {
  int percentiles = 0;                      // that were measured, of TTFT or TPOT, the more
  double tpot_error = 0, ttft_error = 0;    // means of what they are off
  double tpot_lowest = 0, ttft_lowest = 0;  // the one most below what was measured: <= 0
  bool operator==(const TailErrors&) const = default;
};

struct ConfigurationErrors {
  std::string configuration;
  int shapes = 0, points = 0;             // measured
  int predicted = 0;                      // points whose errors are counted
  int outside = 0;                        // of these: shapes outside of what the law was told
  double tpot_error = 0, ttft_error = 0;  // means of relative errors
  std::optional<double> cache_tokens;     // KV cache that the points tell of
  std::optional<TailErrors> tails = {};   // where percentiles were measured
  bool operator==(const ConfigurationErrors&) const = default;
};

struct LawReport {
  LeftOut left_out = LeftOut::nothing;
  int configurations = 0;                           // that count
  int too_small = 0;                                // that do not
  double tpot_error_mean = 0, ttft_error_mean = 0;  // over those that count
  double tpot_error_median = 0, ttft_error_median = 0;
  std::vector<ConfigurationErrors> by_configuration;
  bool operator==(const LawReport&) const = default;
};

// Of percentiles: whoever knows engines says it. Refused: no configuration has enough points, or
// one has too many.
using SayTails = std::function<std::optional<TailErrors>(const Measured&)>;
Result<LawReport> law_report(const std::vector<Measured>& all, LeftOut left_out,
                             const SayTails& tails = {});

std::string law_report_json(const LawReport& report);
std::string law_report_text(const LawReport& report);
Result<LawReport> parse_law_report(const std::string& file, std::string_view text);
DocumentKind law_report_kind();

}  // namespace partita::llm
