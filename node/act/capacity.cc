#include "act/capacity.h"

#include <algorithm>

namespace partita::actuate {

int Capacities::service(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? -1 : found->second;
}

void Capacities::count(const Segment& segment, int gpcs, bool after) {
  if (segment.service.empty()) return;
  const auto [at, fresh] = numbers_.try_emplace(segment.service, static_cast<int>(names_.size()));
  if (fresh) {
    names_.push_back(segment.service);
    services_.emplace_back();
  }
  Service& service = services_[static_cast<std::size_t>(at->second)];
  Totals& totals = after ? service.after : service.before;
  totals.rps += segment.throughput_rps;
  totals.gpcs += gpcs;
  if (segment.throughput_rps <= 0) service.by_rate = false;
}

double Capacities::of(const Segment& segment, int gpcs) const {
  const int number = service(segment.service);
  if (number < 0) return 0;
  return services_[static_cast<std::size_t>(number)].by_rate ? segment.throughput_rps : gpcs;
}

std::vector<double> Capacities::totals(bool after) const {
  std::vector<double> all;
  for (const Service& service : services_) {
    const Totals& totals = after ? service.after : service.before;
    all.push_back(service.by_rate ? totals.rps : totals.gpcs);
  }
  return all;
}

std::vector<double> Capacities::floors(double share) const {
  std::vector<double> floors = now();
  const std::vector<double> after = then();
  for (std::size_t i = 0; i < floors.size(); ++i) floors[i] = share * std::min(floors[i], after[i]);
  return floors;
}

}  // namespace partita::actuate
