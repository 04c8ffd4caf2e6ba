// What MIG-serving deploys: configurations of one GPU with at most two services, and what they are
// worth while parts of the rates are missing. Internal to mig_serving.
#pragma once

#include <compare>
#include <utility>
#include <vector>

#include "hw/packing.h"
#include "plan/serving.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

// What is missing of every service, as a share of its rate; not above 0: nothing.
using Missing = std::vector<double>;

// One GPU: a maximal layout and the service on each instance, -1 on none.
struct GpuConfig {
  int fill = 0;
  std::vector<int> service;  // per instance of the layout
  bool operator==(const GpuConfig&) const = default;
};
using GpuConfigs = std::vector<GpuConfig>;

class ConfigSpace {
 public:
  // The problem must outlive this.
  explicit ConfigSpace(const plan::ServingProblem& problem);

  // The configuration of the highest score over all pairs; scores are not capped.
  GpuConfig best_score(const Missing& missing) const;

  // The configurations of the highest gains, each capped at what is missing, best first, at most
  // `most`; of the services given. Gains are in GPUs: a service's rate counts as many as it would
  // fill alone.
  std::vector<GpuConfig> best_gains(const Missing& missing, std::size_t most) const;

  Missing all() const { return Missing(utility_.size(), 1.0); }
  void take(Missing& missing, const GpuConfig& config, double sign = 1) const;
  // What is missing, less what there is too much of, in GPUs.
  double in_gpus(const Missing& missing) const;
  static bool done(const Missing& missing);

  // The class (size) of an instance of a layout.
  int size_at(int fill, std::size_t instance) const;
  bool runs(int service, int size) const { return utility(service, size) > 0; }

  // Instances that are needed, on their GPUs.
  std::vector<plan::PlannedGpu> to_gpus(const GpuConfigs& deployment) const;

 private:
  double utility(int service, int size) const {
    return utility_[static_cast<std::size_t>(service)][static_cast<std::size_t>(size)];
  }
  struct Pairing {
    int fill = 0, first = 0, second = 0;
    auto operator<=>(const Pairing&) const = default;
  };
  template <class To>
  double fill_in(const Pairing& pairing, const Missing& missing, To to) const;
  std::vector<int> strongest(const Missing& missing) const;
  plan::PlannedInstance planned(const GpuConfig& config, std::size_t instance) const;

  const plan::ServingProblem& problem_;
  PointTable table_;
  hw::PackingRules rules_;
  std::vector<std::vector<std::pair<std::size_t, int>>> large_first_;  // per fill: instance, size
  std::vector<std::vector<double>> utility_;  // service, size: share of its rate
  std::vector<double> worth_;                 // per service: GPUs that its rate fills
};

}  // namespace partita::planners::serving
