// Advice on promises: where an SLO near the fastest batch, or what a language model promises, makes
// a plan large, what an easier one would save, found by planning again. Works with any planner and
// SLO rule. Limits: kMax* below; the search of each re-plan is bounded too.
#pragma once

#include <optional>
#include <vector>

#include "decide/serving.h"
#include "plan/advice.h"

namespace partita::decide {

inline constexpr double kTightSlo = 1.6;       // times the least SLO: below it, advice is due
inline constexpr double kMostRelaxed = 2;      // times the SLO asked for
inline constexpr double kLargeShare = 0.2;     // of the plan's compute slices
inline constexpr std::size_t kMaxAdvised = 3;  // services, the largest ones
inline constexpr std::size_t kMaxServicesForAdvice = 50;
inline constexpr long kAdviceNodes = 200'000;  // of a search

// Execution of the fastest batch of a model on any instance of the fleet that the problem allows.
std::optional<Millis> fastest_batch(const plan::ServingProblem& problem, const std::string& model);

// The round SLOs (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten) above this one, up to
// the first that is at least kMostRelaxed times as long.
std::vector<Millis> rounder_slos(Millis slo);

// Percentiles that let twice and five times as many be late, as far as they are 50 at least.
std::vector<double> lower_percentiles(double percentile);

// For services with a large share of `plan` and an SLO below kTightSlo times the least: the
// smallest round SLO with which `planner` needs fewer GPUs, and the smallest with the fewest GPUs
// of those tried. Of language models, whatever they promise, the same of the TTFT and of the SLO,
// and the highest of lower_percentiles that save. Nothing for plans of one GPU or of many services,
// or where no GPU is saved.
std::vector<plan::SloAdvice> advise(const Planner& planner, const plan::ServingProblem& problem,
                                    const plan::ServingPlan& plan, const PlanOptions& options);

}  // namespace partita::decide
