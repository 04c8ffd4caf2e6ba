#include "planners/serving/mig_serving_configs.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "planners/serving/baseline.h"
#include "planners/serving/mig_serving.h"

namespace partita::planners::serving {

ConfigSpace::ConfigSpace(const plan::ServingProblem& problem)
    : problem_(problem),
      table_(best_points(problem, problem.fleet.front())),
      rules_(hw::packing_rules(problem.fleet.front().gpu, table_.profiles)) {
  for (std::size_t f = 0; f < rules_.fills.size(); ++f) {
    auto& order = large_first_.emplace_back();
    for (std::size_t i = 0; i < rules_.fills[f].layout.size(); ++i)
      order.emplace_back(i, size_at(static_cast<int>(f), i));
    std::ranges::stable_sort(order, std::greater<>(), [](const auto& one) { return one.second; });
  }
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    std::vector<double>& row = utility_.emplace_back();
    for (const auto& point : table_.best[s])
      row.push_back(point ? point->throughput / problem.services[s].rate : 0);
    double fullest = 0;
    for (const hw::Fill& fill : rules_.fills) {
      double carried = 0;
      for (std::size_t k = 0; k < row.size(); ++k) carried += fill.counts[k] * row[k];
      fullest = std::max(fullest, carried);
    }
    worth_.push_back(fullest > 0 ? 1 / fullest : 0);
  }
}

int ConfigSpace::size_at(int fill, std::size_t instance) const {
  const int profile = rules_.fills[static_cast<std::size_t>(fill)].layout[instance].profile;
  return static_cast<int>(std::ranges::find(rules_.profiles, profile) - rules_.profiles.begin());
}

void ConfigSpace::take(Missing& missing, const GpuConfig& config, double sign) const {
  for (std::size_t i = 0; i < config.service.size(); ++i) {
    const int service = config.service[i];
    if (service < 0) continue;
    missing[static_cast<std::size_t>(service)] -= sign * utility(service, size_at(config.fill, i));
  }
}

double ConfigSpace::in_gpus(const Missing& missing) const {
  return std::inner_product(missing.begin(), missing.end(), worth_.begin(), 0.0);
}

bool ConfigSpace::done(const Missing& missing) {
  return std::ranges::all_of(missing, [](double share) { return share <= kRateRounding; });
}

// Services that miss something, the strongest kMostPairs in their order.
std::vector<int> ConfigSpace::strongest(const Missing& missing) const {
  std::vector<int> services;
  for (std::size_t s = 0; s < missing.size(); ++s)
    if (missing[s] > kRateRounding) services.push_back(static_cast<int>(s));
  if (services.size() <= kMostPairs) return services;
  const auto alone = [&](int s) {
    return missing[static_cast<std::size_t>(s)] / worth_[static_cast<std::size_t>(s)];
  };
  std::ranges::stable_sort(services, std::greater<>(), alone);
  services.resize(kMostPairs);
  std::ranges::sort(services);
  return services;
}

// The score adds up over instances, so every size goes to whichever of the two scores more on it.
GpuConfig ConfigSpace::best_score(const Missing& missing) const {
  const std::vector<int> services = strongest(missing);
  const std::size_t sizes = rules_.profiles.size();
  std::vector<std::vector<double>> score(missing.size(), std::vector<double>(sizes));
  for (const int s : services)
    for (std::size_t k = 0; k < sizes; ++k)
      score[static_cast<std::size_t>(s)][k] =
          missing[static_cast<std::size_t>(s)] * utility(s, static_cast<int>(k));
  double best = -1;
  int fill = 0, first = 0, second = 0;
  std::vector<double> most(sizes);
  for (auto a = services.begin(); a != services.end(); ++a)
    for (auto b = a; b != services.end(); ++b) {
      const auto& of_a = score[static_cast<std::size_t>(*a)];
      const auto& of_b = score[static_cast<std::size_t>(*b)];
      for (std::size_t k = 0; k < sizes; ++k) most[k] = std::max(of_a[k], of_b[k]);
      for (std::size_t f = 0; f < rules_.fills.size(); ++f) {
        double sum = 0;
        for (std::size_t k = 0; k < sizes; ++k) sum += rules_.fills[f].counts[k] * most[k];
        if (sum <= best * (1 + kRateRounding)) continue;
        best = sum;
        fill = static_cast<int>(f);
        first = *a;
        second = *b;
      }
    }
  GpuConfig config{fill, {}};
  for (std::size_t i = 0; i < rules_.fills[static_cast<std::size_t>(fill)].layout.size(); ++i) {
    const auto k = static_cast<std::size_t>(size_at(fill, i));
    const bool to_second =
        score[static_cast<std::size_t>(second)][k] > score[static_cast<std::size_t>(first)][k];
    const int service = to_second ? second : first;
    config.service.push_back(runs(service, static_cast<int>(k)) ? service : -1);
  }
  return config;
}

// Goes through a layout's instances, large ones first; each is for the service of the two that
// gains more. Calls `to` with the instance and the service, -1 for neither.
template <class To>
double ConfigSpace::fill_in(const Pairing& pairing, const Missing& missing, To to) const {
  const int services[] = {pairing.first, pairing.second};
  double left[] = {missing[static_cast<std::size_t>(pairing.first)],
                   missing[static_cast<std::size_t>(pairing.second)]};
  double sum = 0;
  for (const auto& [instance, size] : large_first_[static_cast<std::size_t>(pairing.fill)]) {
    double most = 0;
    int chosen = -1;
    for (int which = 0; which < (pairing.first == pairing.second ? 1 : 2); ++which) {
      const double worth = worth_[static_cast<std::size_t>(services[which])];
      const double gained =
          worth * std::min(std::max(0.0, left[which]), utility(services[which], size));
      if (gained <= most * (1 + kRateRounding)) continue;
      most = gained;
      chosen = which;
    }
    sum += most;
    if (chosen >= 0) left[chosen] -= utility(services[chosen], size);
    to(instance, chosen < 0 ? -1 : services[chosen]);
  }
  return sum;
}

std::vector<GpuConfig> ConfigSpace::best_gains(const Missing& missing, std::size_t most) const {
  const std::vector<int> services = strongest(missing);
  std::vector<std::pair<double, Pairing>> found;
  for (auto a = services.begin(); a != services.end(); ++a)
    for (auto b = a; b != services.end(); ++b)
      for (std::size_t f = 0; f < rules_.fills.size(); ++f) {
        const Pairing pairing{static_cast<int>(f), *a, *b};
        const double gained = fill_in(pairing, missing, [](std::size_t, int) {});
        if (gained > 0) found.emplace_back(gained, pairing);
      }
  const auto better = [](const auto& x, const auto& y) {
    return std::tuple(-x.first, x.second) < std::tuple(-y.first, y.second);
  };
  // The same configuration comes from several pairs where one of them is of no use.
  const std::size_t looked_at = std::min(found.size(), most * (services.size() + 1));
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(looked_at);
  std::partial_sort(found.begin(), end, found.end(), better);
  std::vector<GpuConfig> best;
  for (auto one = found.begin(); one != end && best.size() < most; ++one) {
    GpuConfig config{one->second.fill, {}};
    config.service.resize(large_first_[static_cast<std::size_t>(config.fill)].size());
    fill_in(one->second, missing,
            [&](std::size_t instance, int service) { config.service[instance] = service; });
    if (std::ranges::find(best, config) == best.end()) best.push_back(std::move(config));
  }
  return best;
}

plan::PlannedInstance ConfigSpace::planned(const GpuConfig& config, std::size_t instance) const {
  const int service = config.service[instance];
  const int size = size_at(config.fill, instance);
  const auto& place = rules_.fills[static_cast<std::size_t>(config.fill)].layout[instance];
  const auto& point =
      table_.best[static_cast<std::size_t>(service)][static_cast<std::size_t>(size)];
  CHECK(point);
  const auto& shapes = problem_.fleet.front().gpu.profiles;
  return {shapes[static_cast<std::size_t>(place.profile)].name,
          place.start,
          problem_.services[static_cast<std::size_t>(service)].name,
          point->batch,
          point->processes,
          point->throughput,
          point->latency};
}

std::vector<plan::PlannedGpu> ConfigSpace::to_gpus(const GpuConfigs& deployment) const {
  std::vector<plan::PlannedGpu> gpus;
  for (const GpuConfig& config : deployment) {
    plan::PlannedGpu gpu;
    for (std::size_t i = 0; i < config.service.size(); ++i)
      if (config.service[i] >= 0) gpu.instances.push_back(planned(config, i));
    if (!gpu.instances.empty()) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace partita::planners::serving
