#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/serving.h"

namespace partita::sim {

std::string report_json(const ServingReport& report, std::uint64_t seed, double events_per_second) {
  using Json = nlohmann::ordered_json;
  Json services = Json::array();
  for (const ServiceReport& service : report.services) {
    services.push_back({{"name", service.name},
                        {"offered", service.offered},
                        {"completed", service.completed},
                        {"slo_attainment", service.slo_attainment},
                        {"p50_ms", service.p50.value},
                        {"p95_ms", service.p95.value},
                        {"p99_ms", service.p99.value}});
  }
  const Json gpus = {{"internal_slack", report.internal_slack},
                     {"external_fragmentation", report.external_fragmentation}};
  const Json json = {{"api_version", "partita/v1"},
                     {"kind", "ServingReport"},
                     {"services", std::move(services)},
                     {"gpus", gpus},
                     {"events", report.events},
                     {"events_per_second", events_per_second},
                     {"seed", seed},
                     {"log_hash", fmt::format("{:016x}", report.log_hash)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace partita::sim
