// Placement: from counts per class to instances at starts on numbered GPUs.
#pragma once

#include <optional>
#include <vector>

#include "plan/serving.h"
#include "planners/serving/fleet.h"

namespace partita::planners::serving {

// An instance of a class, for a service, and what one GPU holds.
struct Occupant {
  std::size_t cls;
  int service;
};
struct FilledGpu {
  std::size_t model;
  std::vector<Occupant> tenants;
};

// How an engine serves on the instance: its name, and its parts of a GPU's SMs.
void set_engine(plan::PlannedInstance& instance, const profile::TokenEngine& engine);

// Starts for the tenants of all GPUs; those without any are left out.
std::vector<plan::PlannedGpu> settle(const plan::ServingProblem& problem,
                                     const std::vector<PointTable>& tables, const Fleet& fleet,
                                     const std::vector<FilledGpu>& gpus);

struct Placement {
  std::optional<std::vector<plan::PlannedGpu>> gpus;
  bool proven =
      true;  // without gpus: there is no place (a search that stopped early proves nothing)
};

// counts[service]: its instances per class. Uses at most gpus[model] GPUs of each model. Services
// that must keep apart (spread, avoid) are placed by searches of kPlaceNodes each.
inline constexpr int kPlaceNodes = 20'000;
// Instances beyond which services that keep apart are not placed instance by instance.
inline constexpr std::size_t kMaxApartTenants = 5'000;
Placement place(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
                const Fleet& fleet, const std::vector<Counts>& counts,
                const std::vector<int>& gpus);

}  // namespace partita::planners::serving
