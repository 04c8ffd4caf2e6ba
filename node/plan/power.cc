#include "plan/power.h"

#include <algorithm>
#include <numeric>

namespace partita::plan {

const char* to_string(Gating gating) {
  switch (gating) {
    case Gating::group:
      return "group";
    case Gating::unit:
      return "unit";
    case Gating::none:
      break;
  }
  return "none";
}

const char* to_string(PowerPromise promise) {
  return promise == PowerPromise::queueing ? "queueing" : "execution";
}

int ResponseTable::units() const { return std::reduce(units_in.begin(), units_in.end()); }

const ModelResponse* ResponseTable::find(const std::string& model) const {
  const auto found = std::ranges::lower_bound(models, model, {}, &ModelResponse::model);
  return found != models.end() && found->model == model ? &*found : nullptr;
}

Watts ResponseTable::unit_idle(std::size_t clock) const {
  return (clocks[clock].active_idle - idle) / units();
}

}  // namespace partita::plan
