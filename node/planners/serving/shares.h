// What planners of MPS shares choose from: the points of every service on shares of a whole GPU
// without MIG, between the sizes that were measured (profile/share.h). Kept per model and share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "plan/serving.h"

namespace partita::planners::serving {

class Shares {
 public:
  // Of the first GPU model of the problem, which must outlive this.
  explicit Shares(const plan::ServingProblem& problem);

  // One process, any batch, ascending; empty where nothing is known.
  const std::vector<profile::ProfilePoint>& points(const plan::Service& service, double percent);
  const profile::ProfilePoint* point(const plan::Service& service, double percent, int batch);

  // Batches grow as long as they stay below the limit, which starts at the smallest; none: not even
  // that one does.
  template <class Latency>
  const profile::ProfilePoint* largest_batch(const plan::Service& service, double percent,
                                             Millis limit, Latency latency) {
    const profile::ProfilePoint* largest = nullptr;
    for (const profile::ProfilePoint& point : points(service, percent)) {
      if (!(latency(point) < limit)) break;
      largest = &point;
    }
    return largest;
  }

  const hw::MigProfile& whole() const { return *whole_; }  // the size of the whole GPU

 private:
  const plan::FleetEntry& entry_;
  const hw::MigProfile* whole_ = nullptr;  // of the whole GPU
  std::map<std::pair<std::string, double>, std::vector<profile::ProfilePoint>> known_;
};

// Services whose smallest batch misses the rule even on a whole GPU of their own.
std::vector<plan::Reason> unservable_shares(const plan::ServingProblem& problem);

// GPUs with the shares on them, and what is free of each.
class SharedGpus {
 public:
  explicit SharedGpus(const hw::MigProfile& whole) : whole_(whole) {}

  std::size_t size() const { return gpus_.size(); }
  double percent(std::size_t gpu) const { return used_[gpu].percent; }
  const std::vector<plan::PlannedInstance>& on(std::size_t gpu) const {
    return gpus_[gpu].instances;
  }
  // Whether its memory has room for a point as well; always on a new GPU.
  bool has_memory(std::size_t gpu, const profile::ProfilePoint& point) const;
  // gpu = size(): a new one.
  void put(std::size_t gpu, const plan::Service& service, double percent,
           const profile::ProfilePoint& point);
  std::vector<plan::PlannedGpu> take() && { return std::move(gpus_); }

 private:
  struct Used {
    double percent = 0, memory = 0;
  };
  const hw::MigProfile& whole_;
  std::vector<plan::PlannedGpu> gpus_;
  std::vector<Used> used_;
};

}  // namespace partita::planners::serving
