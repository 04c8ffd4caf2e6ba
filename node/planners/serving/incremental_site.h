// What incremental planning starts from: the places on every GPU model, what services carry there,
// and the running instances of the current plan that may be kept. Built once, then constant.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/serving.h"
#include "planners/serving/fleet.h"

namespace partita::planners::serving {

// What instances are put on: a GPU of a fleet entry, or a group of so many of its whole GPUs, which
// holds one instance. The first ones are the GPUs of the entries, in their order.
struct Unit {
  int entry = 0;
  int gpus = 1;
};

// A place for an instance on a unit; gpcs: of all its GPUs.
struct Spot {
  std::size_t cls = 0;  // class of the fleet
  int start = 0;
  std::uint32_t slices = 0;  // memory slices, one bit each
  int gpcs = 0;
};

// An instance of the current plan that may be kept.
struct Running {
  int spot = 0;  // of its unit
  int service = 0;
  int batch = 0, processes = 0;
  bool best = false;  // batch and processes are those of the best point
  double rate = 0;    // what it carries as it is, requests/s; 0 when it must be restarted
  Millis latency;     // of a full batch as it is
  const profile::TokenEngine* engine = nullptr;  // of a language model: what runs, as it is
};

// A GPU of the current plan whose model the fleet has, or a group of such, with what may be kept on
// it: a legal layout in which nobody meets whom it avoids.
struct SiteGpu {
  std::vector<int> indices;       // as many as its unit has GPUs
  int model = 0;                  // its unit
  std::vector<Running> running;   // ascending spot
  std::vector<Running> clashing;  // run too, but not beside `running`; kept only instead of these
};

struct Site {
  const plan::ServingProblem& problem;
  const std::vector<PointTable>& tables;
  const Fleet& fleet;
  std::vector<Kind> kinds;               // one per service
  std::vector<double> largest;           // per service, its best rate on any class
  std::vector<Unit> units;
  std::vector<std::vector<Spot>> spots;  // per unit; `model` below is one, too
  std::vector<SiteGpu> gpus;             // as the current plan lists them
  std::vector<std::vector<int>> apart;   // per service, ascending: whom it must not meet
  std::vector<int> taken_indices;        // of all GPUs of the current plan, ascending
  std::map<std::string, int> index;      // services by name
  bool clashes = false;                  // some GPU has clashing instances
  bool pairwise = true;                  // places that share no memory slice always go together

  int entries() const { return static_cast<int>(tables.size()); }
  const Unit& unit(int model) const { return units[static_cast<std::size_t>(model)]; }
  int unit_of(std::size_t cls) const;               // on which a class has its places
  int profile(int model, const Spot& place) const;  // of the GPU model
  const Spot& spot(int model, int s) const {
    return spots[static_cast<std::size_t>(model)][static_cast<std::size_t>(s)];
  }
  double rate(int service, int model, int s) const {
    return kinds[static_cast<std::size_t>(service)].rate[spot(model, s).cls];
  }
  bool meet(int a, int b) const;  // may be on one GPU
  bool legal(int model, const std::vector<int>& spots) const;
  bool tied() const;  // somebody keeps apart
  // What runs at a place of a GPU for a service; null when nothing does.
  const Running* running_at(int gpu, int spot, int service) const;
  // The best point of a service at a place.
  const BestPoint& point(int service, int model, int s) const;
  // The engine behind it, of a language model; else null.
  const profile::TokenEngine* engine(int service, int model, int s) const;
  // Instances that a service needs at least beyond `count` that carry `rate`.
  int missing(int service, double rate, int count) const;
};

// What runs, and what is known of language models' engines; may be null.
struct Runs {
  const plan::ServingPlan& plan;
  TokenOracle* tokens = nullptr;
};
Site make_site(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
               const Fleet& fleet, const Runs& current);

}  // namespace partita::planners::serving
