#include "planners/serving/token_watts.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "planners/serving/token_points.h"

namespace partita::planners::serving {
double joules_per_answer(const plan::FleetEntry& entry, const plan::Service& service,
                         const profile::TokenEngine& engine, int sequences) {
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  const double n = std::max(1.0, std::min(1.0 * sequences, sequences_in_time(service, engine)));
  const profile::StepCost& c = engine.spec.cost;
  const double shared =
      service.tokens->prefix_share * std::min<double>(service.tokens->prefix_tokens, mean.in);
  const double prompt = std::max(1.0, mean.in - shared);
  const profile::EngineSpec& by = engine.prompts_by();
  const double prefill =
      prompt * by.cost.prompt_token + prompt * prompt / 2 * by.cost.prompt_context;
  const double alone = prefill + prompt / by.step_tokens * by.cost.step;
  const double step = c.of_sequences(n) / n + c.cached_token * mean.context;
  const double decode = (mean.out - 1) * step;
  const int gpcs = entry.gpu.profiles[at(profile_of(entry.gpu, engine))].gpcs;
  const double gpus = 1.0 * engine.gpus * gpcs / entry.gpu.compute_slices;
  double ms = std::max(alone, prefill + decode);  // of all its GPUs
  if (engine.prefill_units > 0) {
    const double units = engine.prefill_units + engine.decode_units;
    ms = (engine.prefill_units * alone + engine.decode_units * decode) / units;
  } else if (engine.prefills > 0) {
    ms = (alone + decode) / (engine.prefills + engine.decodes);
  }
  return ms / 1e3 * gpus * (entry.power->busy - entry.power->idle).value;
}

}  // namespace partita::planners::serving
