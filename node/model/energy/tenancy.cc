#include "model/energy/tenancy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace partita::energy {
namespace {

using telemetry::GpuSample;
using telemetry::InstanceSample;

bool of_gpu(const Tenure& tenure, const GpuSample& gpu) {
  if (!tenure.gpu_uuid.empty() && !gpu.uuid.empty()) return tenure.gpu_uuid == gpu.uuid;
  return tenure.gpu == gpu.index;
}

double overlap(const Tenure& tenure, double from, double to) {
  const double begin = std::max(from, tenure.from ? tenure.from->value : from);
  const double end = std::min(to, tenure.to ? tenure.to->value : to);
  return to > from ? std::max(0.0, end - begin) / (to - from) : 0;
}

}  // namespace

std::vector<const Tenure*> TenantFinder::tenures_of(const GpuSample& gpu,
                                                    const InstanceSample& instance) {
  std::vector<const Tenure*> found;
  for (const Tenure& tenure : tenancy_.tenures)
    if (!tenure.device.empty() && tenure.device == instance.uuid) found.push_back(&tenure);
  if (!found.empty()) return found;
  const auto place = tenancy_.places.find({gpu.uuid, instance.gi_id});
  std::set<int> starts;
  std::set<std::string> services;
  for (const Tenure& tenure : tenancy_.tenures) {
    if (!tenure.device.empty() || tenure.percent > 0 || !of_gpu(tenure, gpu)) continue;
    if (place != tenancy_.places.end()) {
      if (place->second == tenure) found.push_back(&tenure);
      continue;
    }
    if (tenure.profile != instance.profile) continue;
    found.push_back(&tenure);
    starts.insert(tenure.start);
    services.insert(tenure.service);
  }
  if (place != tenancy_.places.end() || starts.size() <= 1) return found;
  // Several places of that profile: the driver mostly numbers them in their order.
  std::vector<int> ids;
  for (const InstanceSample& other : gpu.instances)
    if (other.profile == instance.profile) ids.push_back(other.gi_id);
  const auto nth = std::ranges::find(ids, instance.gi_id) - ids.begin();
  if (services.size() > 1)
    guesses_[fmt::format(
        "GPU {} has several instances {}: taken to be numbered as they lie; "
        "--state or an assignment tells for sure",
        gpu.index, instance.profile)] = 1;
  if (nth >= static_cast<std::ptrdiff_t>(starts.size())) return {};
  const int start = *std::next(starts.begin(), nth);
  std::erase_if(found, [&](const Tenure* tenure) { return tenure->start != start; });
  return found;
}

std::vector<Occupied> TenantFinder::on(const GpuSample& gpu, const InstanceSample& instance,
                                       Seconds from, Seconds to) {
  std::vector<Occupied> out;
  double all = 0;
  for (const Tenure* tenure : tenures_of(gpu, instance)) {
    const double part = overlap(*tenure, from.value, to.value);
    if (part <= 0) continue;
    out.push_back({tenure->service, part, 0});
    all += part;
  }
  if (all > 1)
    for (Occupied& one : out) one.part /= all;
  return out;
}

std::vector<Occupied> TenantFinder::on(const GpuSample& gpu) const {
  std::vector<Occupied> out;
  double all = 0;
  for (const Tenure& tenure : tenancy_.tenures) {
    if (tenure.percent <= 0 || !of_gpu(tenure, gpu)) continue;
    out.push_back({tenure.service, 1, tenure.percent});
    all += tenure.percent;
  }
  if (all > 100)
    for (Occupied& one : out) one.percent *= 100 / all;
  return out;
}

std::vector<std::string> TenantFinder::guesses() const {
  std::vector<std::string> out;
  for (const auto& [sentence, count] : guesses_) out.push_back(sentence);
  return out;
}

}  // namespace partita::energy
