// Counts nearest to what runs: how many instances of every class each service should have, so that
// all fit on given numbers of GPUs and as few as possible must be created. Positions are left out,
// so it is a relaxation: its bound holds for every plan, its counts guide the search (repack).
//
//   min  sum_s created_s   created_s = sum_k max(0, n_sk - running_sk)
//   s.t. n_s covers service s;  weight_f . N <= capacity_f * gpus for every facet f;
//        what is kept, in instances and in slices, is at most what the GPUs with the most have.
//
// The rows are priced by subgradient steps; a bound is linear in the right-hand sides, so that the
// prices found for one number of GPUs bound every other one.
#pragma once

#include <optional>
#include <vector>

#include "planners/serving/incremental_site.h"

namespace partita::planners::serving {

class NearestCounts {
 public:
  explicit NearestCounts(const Site& site);

  // Improves bounds and counts for these numbers of GPUs per model; `target` is a number of
  // creations that is known to suffice.
  void price(const std::vector<int>& gpus, int target, int steps);
  // No plan on so many GPUs per model creates fewer instances.
  int bound(const std::vector<int>& gpus) const;
  // Counts per service that fit, few of them new; `start` fits. Deterministic local search.
  // thorough: from the cheapest covers too, which takes time with many services.
  std::vector<Counts> counts(const std::vector<int>& gpus, const std::vector<Counts>& start,
                             bool thorough);
  // Running instances of a service per class.
  const Counts& running(int service) const { return running_[static_cast<std::size_t>(service)]; }

 private:
  struct Constraint {
    Prices weight{}, kept{};  // per instance of a class, and more when it is kept
  };
  struct Cut {
    std::vector<double> multipliers;
    double value = 0;  // summed prices of the cheapest covers
  };
  struct Candidate {
    Counts counts{};
    int created = 0;
    std::vector<double> load;  // per row
    bool operator==(const Candidate& other) const { return counts == other.counts; }
  };
  using Chosen = std::vector<Candidate>;  // per service
  std::vector<double> limits(const std::vector<int>& gpus) const;
  Candidate candidate(std::size_t service, const Counts& counts) const;
  PricedCover cheapest(std::size_t service, const std::vector<double>& multipliers) const;
  void remember(std::size_t service, const Candidate& candidate);
  std::optional<Chosen> repaired(Chosen chosen, const std::vector<double>& limit) const;
  void improve(Chosen& chosen, const std::vector<double>& limit) const;

  const Site& site_;
  std::vector<Counts> running_;                     // per service
  std::vector<Constraint> rows_;                    // facets, groups, then two of what is kept
  std::vector<std::vector<Candidate>> candidates_;  // per service
  std::vector<Cut> cuts_;
  std::vector<double> multipliers_;                          // of the best cut so far
  std::vector<std::vector<std::vector<double>>> most_kept_;  // [instances, slices][model][gpus]
};

}  // namespace partita::planners::serving
