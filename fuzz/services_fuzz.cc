// Services files: whatever the bytes, a list of services within the documented bounds or a refusal.
#include <cmath>
#include <set>
#include <string_view>

#include "base/check.h"
#include "forms/serving_forms.h"
#include "plan/arrivals.h"
#include "target.h"

FUZZ_TARGET(services) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = [&](const std::string&) { return partita::Result<std::string>(text); };
  const auto services = partita::forms::parse_services("fuzz.yaml", text, file);
  if (!services) {
    CHECK(services.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  std::set<std::string> names;
  for (const partita::plan::Service& service : *services) {
    CHECK(names.insert(service.name).second);
    const auto& traffic = service.traffic;
    const bool of_trace = std::holds_alternative<partita::plan::TraceArrivals>(traffic.arrivals);
    CHECK(std::isfinite(service.rate.value));
    CHECK(service.rate.value > 0 || (of_trace && traffic.rates.empty()));
    CHECK(traffic.headroom >= 0 && traffic.headroom <= 10);
    for (const partita::plan::RateAt& entry : traffic.rates)
      CHECK(entry.rate.value > 0 && std::isfinite(entry.rate.value));
    if (service.rate.value > 0 && !of_trace)  // what is read can be played
      partita::plan::ArrivalSource::of(traffic.arrivals, service.rate, partita::Rng(1)).next();
    CHECK(std::isfinite(service.slo.value) && service.slo.value > 0);
    CHECK(service.percentile > 0 && service.percentile < 100);
    if (service.pipeline) CHECK(partita::plan::graph_of(*service.pipeline).has_value());
    CHECK(service.min_replicas >= 1 && service.line >= 1);
    if (service.cache) {
      CHECK(!service.models && !service.pipeline && !service.tokens);
      CHECK(service.cache->memory.value >= 1 && service.cache->memory.value <= 1e6);
      CHECK(service.cache->ttl.value >= 0 && service.cache->ttl.value <= 1e9);
    }
    if (!service.models) continue;
    CHECK(!service.models->models.empty() && service.models->memory.value > 0);
    for (const partita::plan::SetModel& model : service.models->models)
      CHECK(model.weight > 0 && names.insert(model.name).second);
  }
  return 0;
}
