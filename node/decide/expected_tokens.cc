#include "decide/expected_tokens.h"

#include "llm/engine/token_times.h"

namespace partita::decide {
namespace {

constexpr int kRequests = 2000;
constexpr std::uint64_t kSeed = 11;

}  // namespace

Millis expected_tpot(const ReplicasAsked& asked) {
  plan::Terms terms = asked.service;
  terms.percentile = 50;
  double sum = 0, carried = 0;
  for (const plan::PlannedGpu& gpu : asked.plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (one.service == terms.name) carried += one.throughput.value;
  if (!(carried > 0)) return {};
  for (const plan::PlannedGpu& gpu : asked.plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances) {
      if (one.service != terms.name) continue;
      const std::string& model = gpu.model.empty() ? asked.plan.gpu_model : gpu.model;
      const auto* const engine = plan::engine_of(asked.problem, model, asked.service, one);
      if (engine == nullptr) return {};
      profile::TokenEngine limited = *engine;
      limited.spec.sequences = one.batch;
      const double share = one.throughput.value / carried;
      const llm::ReplicaTimes times = llm::replica_times(
          terms, limited, {.rate = asked.rate * share, .count = kRequests, .seed = kSeed});
      sum += share * times.tpot.value;
    }
  return Millis{sum};
}

}  // namespace partita::decide
