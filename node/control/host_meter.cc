#include "control/host_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "model/energy/attribution.h"

namespace partita::control {
namespace {

constexpr double kMicro = 1e6;
constexpr double kLeastForIdleS = 0.2;  // counters move in steps of a millisecond

// Adds what a counter grew by; nothing where it is missing at either end.
std::optional<double> grown(const std::optional<Joules>& before, const std::optional<Joules>& now) {
  if (!before || !now || *now < *before) return {};
  return (*now - *before).value;
}

}  // namespace

std::map<std::string, double> slice_shares(const telemetry::Sample& sample,
                                           const energy::Tenancy& tenancy) {
  double all = 0;
  std::map<std::string, int> slices;  // by instance; once somebody has it, it is taken out
  for (const telemetry::GpuSample& gpu : sample.gpus) {
    all += gpu.compute_slices;
    for (const telemetry::InstanceSample& one : gpu.instances)
      slices[one.uuid] = one.compute_slices;
  }
  std::map<std::string, double> shares;
  if (all <= 0) return shares;
  for (const energy::Tenure& tenure : tenancy.tenures)
    if (const auto found = slices.extract(tenure.device))
      shares[tenure.service] += found.mapped() / all;
  return shares;
}

std::optional<double> together(const HostNow& host, const telemetry::Sample& sample) {
  if (!host.cpu_w || !host.dram_w) return {};
  double watts = *host.cpu_w + *host.dram_w;
  for (const telemetry::GpuSample& gpu : sample.gpus) {
    if (!gpu.power) return {};
    watts += gpu.power->value;
  }
  return watts;
}

void HostMeter::see(const telemetry::HostSample& sample,
                    const std::map<std::string, double>& shares) {
  if (last_ && sample.at <= last_->at) return;
  const auto before = std::exchange(last_, sample);
  HostNow draw = whole_.value_or(HostNow{});
  draw.fault = sample.fault;
  draw.cpu_w = draw.dram_w = draw.psys_w = {};
  for (auto& [tenant, one] : draws_) one.watts = 0;
  const double seconds = before ? (sample.at - before->at).value : 0;
  if (before && seconds <= EnergyMeter::kLongestS) {
    double together = 0, idle = 0;
    const auto take = [&](std::optional<Joules> telemetry::HostEnergy::*what,
                          std::optional<double>& watts, std::optional<double>& joules,
                          std::optional<double>* least_w) {
      const auto more = grown(before->energy.*what, sample.energy.*what);
      if (!more) return;
      watts = *more / seconds;
      joules = joules.value_or(0) + *more;
      if (least_w == nullptr) return;  // psys has the others in it
      if (seconds >= kLeastForIdleS) *least_w = std::min(least_w->value_or(*watts), *watts);
      together += *more;
      idle += std::min(*more, least_w->value_or(0) * seconds);
    };
    using telemetry::HostEnergy;
    take(&HostEnergy::cpu, draw.cpu_w, draw.cpu_j, &idle_cpu_w_);
    take(&HostEnergy::dram, draw.dram_w, draw.dram_j, &idle_dram_w_);
    take(&HostEnergy::psys, draw.psys_w, draw.psys_j, nullptr);
    if (draw.cpu_w || draw.dram_w) {
      telemetry::HostSample passed = sample;  // times of the interval
      for (auto& [tenant, cpu_s] : passed.cpu_of) {
        const auto was = before->cpu_of.find(tenant);
        if (was != before->cpu_of.end()) taken_.try_emplace(tenant);  // it may have been nothing
        cpu_s = was == before->cpu_of.end() ? 0 : std::max(0.0, cpu_s - was->second);
      }
      if (passed.cpu_s && before->cpu_s)
        passed.cpu_s = *passed.cpu_s - *before->cpu_s;
      else
        passed.cpu_s.reset();
      const std::int64_t all = std::llround(together * kMicro);
      share_out({all, std::min<std::int64_t>(all, std::llround(idle * kMicro))}, seconds, passed,
                shares);
    }
  }
  whole_ = draw;
}

double HostMeter::idle_joules(const std::string& tenant) const {
  const auto found = taken_.find(tenant);
  return found == taken_.end() ? 0 : static_cast<double>(found->second.idle) / kMicro;
}

std::optional<HostMeter::Part> HostMeter::part_of(const std::string& tenant) const {
  const auto found = taken_.find(tenant);
  if (found == taken_.end() || !last_->cpu_s || !last_->cpu_of.contains(tenant)) return {};
  return Part{static_cast<double>(found->second.all) / kMicro, idle_joules(tenant)};
}

void HostMeter::forget(const std::string& tenant) {
  taken_.erase(tenant);
  draws_.erase(tenant);
}

void HostMeter::share_out(const Micro& took, double seconds, const telemetry::HostSample& now,
                          const std::map<std::string, double>& shares) {
  const bool by_time = now.cpu_s && *now.cpu_s > 0 &&
                       std::ranges::all_of(shares, [&](const auto& one) {
                         return now.cpu_of.contains(one.first);
                       });
  const double all = by_time ? *now.cpu_s : 1;
  std::vector<std::string> tenants{kNobody};
  std::vector<double> parts{0};
  double sum = 0;
  for (const auto& [tenant, part] : by_time ? now.cpu_of : shares) {
    tenants.push_back(tenant);
    parts.push_back(part);
    sum += part;
  }
  parts.front() = std::max(0.0, all - sum);
  // Each by itself, so that a part's idle joules are never more than its joules.
  const std::vector<std::int64_t> worked = energy::apportion(parts, took.all - took.idle);
  const std::vector<std::int64_t> idle = energy::apportion(parts, took.idle);
  for (std::size_t t = 0; t < tenants.size(); ++t) {
    const std::int64_t more = worked[t] + idle[t];
    if (more == 0) continue;
    Micro& has = taken_[tenants[t]];
    has.all += more;
    has.idle += idle[t];
    draws_[tenants[t]] = {static_cast<double>(more) / kMicro / seconds,
                          static_cast<double>(has.all) / kMicro};
  }
}

}  // namespace partita::control
