#include "decide/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "decide/advice.h"
#include "profile/buckets.h"
#include "profile/consistency.h"

namespace partita::decide {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr double kOncePerHour = 1.0 / 3600;
constexpr double kMuchPadding = 0.1;

std::string place(const std::string& file, const plan::Service& service) {
  return fmt::format("{}:{}", file, service.line);
}

// "service 'chat': slo_ms 0.2 is 1/25 of the fastest batch of bert, 5 ms".
std::string slo_text(const plan::Service& service, Millis fastest) {
  const double times = service.slo / fastest;
  return fmt::format(
      "service '{}': slo_ms {:g} is {} the fastest batch of {}, {:.4g} ms", service.name,
      service.slo.value,
      times >= 1 ? fmt::format("{:.0f} x", times) : fmt::format("1/{:.3g} of", 1 / times),
      service.model, fastest.value);
}

bool fits_in_seconds(const plan::Service& service, Millis fastest) {
  return service.slo < fastest && service.slo * kMsPerSecond >= fastest;
}

std::string in_seconds(const plan::Service& service) {
  return fmt::format("; in seconds? Then write slo_ms: {:g}", service.slo.value * kMsPerSecond);
}

// What whole GPUs of the fleet carry at most of a model, by the best of them.
double whole_gpu_rps(const plan::ServingProblem& problem, const std::string& model) {
  double best = 0;
  for (const plan::FleetEntry& entry : problem.fleet) {
    const auto profile = entry.profiles.find(model);
    if (profile == entry.profiles.end()) continue;
    for (const profile::ProfilePoint& point : profile->second.points)
      if (point.processes <= problem.max_processes)
        best = std::max(best, point.throughput.value * entry.gpu.compute_slices / point.gpcs);
  }
  return best;
}

std::optional<std::string> rate_doubt(const plan::ServingProblem& problem,
                                      const plan::Service& service) {
  const double whole = whole_gpu_rps(problem, service.model);
  const double rate = service.rate.value;
  if (whole > 0 && rate > kManyGpus * whole)
    return fmt::format(
        "service '{}': rate_rps {:g} needs at least {:.0f} GPUs; per minute? Then write rate_rps: "
        "{:.4g}",
        service.name, rate, rate / whole, rate / 60);
  if (rate < kOncePerHour)
    return fmt::format(
        "service '{}': rate_rps {:g} is less than a request an hour; thousands per second? Then "
        "write rate_rps: {:g}",
        service.name, rate, rate * 1000);
  return std::nullopt;
}

std::optional<std::string> slo_doubt(const plan::Service& service, Millis fastest) {
  if (fits_in_seconds(service, fastest)) return slo_text(service, fastest) + in_seconds(service);
  if (service.slo >= kEndlessSlo * fastest)
    return slo_text(service, fastest) + fmt::format("; in microseconds? Then write slo_ms: {:g}",
                                                    service.slo.value / kMsPerSecond);
  return std::nullopt;
}

std::optional<std::string> padding_doubt(const plan::Service& service) {
  if (service.padding <= kMuchPadding) return std::nullopt;
  return fmt::format(
      "service '{}': {:.0f} % of the compute of its buckets is padding; more of "
      "them, or others, waste less",
      profile::bucket_name(service.name).name, 100 * service.padding);
}

}  // namespace

Result<void> check_units(const plan::ServingProblem& problem, const std::string& file) {
  for (const plan::Service& service : problem.services) {
    const std::optional<Millis> fastest = fastest_batch(problem, service.model);
    if (!fastest || !(service.slo < kHopelessSlo * *fastest)) continue;
    if (fits_in_seconds(service, *fastest))
      return bad_input(place(file, service), slo_text(service, *fastest) + in_seconds(service));
  }
  return {};
}

std::vector<std::string> doubts(const plan::ServingProblem& problem, const std::string& file) {
  std::vector<std::string> said;
  for (const plan::FleetEntry& entry : problem.fleet)
    for (const std::string& doubt : profile::doubts(entry.profiles)) said.push_back(doubt);
  int line = 0;  // all buckets of a service are said in one
  for (const plan::Service& service : problem.services) {
    const auto padding = service.line == line ? std::nullopt : padding_doubt(service);
    line = service.line;
    const std::optional<Millis> fastest = fastest_batch(problem, service.model);
    const auto slo = fastest ? slo_doubt(service, *fastest) : std::nullopt;
    for (const auto& doubt : {slo, rate_doubt(problem, service), padding})
      if (doubt) said.push_back(place(file, service) + ": " + *doubt);
  }
  if (said.size() > kMaxDoubts) {
    const std::size_t more = said.size() - kMaxDoubts;
    said.resize(kMaxDoubts);
    said.push_back(fmt::format("and {} more warnings of this kind", more));
  }
  return said;
}

}  // namespace partita::decide
