// Instances of a queue as leases (act/lease): each is the lease of an owner
// "queue/GPU-UUID.PROFILE@START", so a queue that was killed finds them again, and whoever else
// changes the node leaves them alone. GPUs have the numbers that the driver gives them at the first
// look, and are found by their UUIDs should it count otherwise later. Every call takes the node's
// lock for as long as it lasts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "act/lease/lease_forms.h"
#include "act/lease/leases.h"
#include "queue/host/doors.h"

namespace partita::queue {

class LeasedInstances final : public InstanceDoor {
 public:
  // `log`: of leases, see there. `lock`: takes the node's lock, waiting as long as is fit.
  LeasedInstances(lease::LeaseDoors doors, std::string log, std::function<Result<FileLock>()> lock);

  // GPUs that nothing is made on, by UUID, and why.
  void close(std::map<std::string, std::string> gpus) { doors_.closed = std::move(gpus); }
  Result<std::string> create(const Place& place) override;
  Result<void> destroy(const Place& place) override;
  Result<Seen> look() override;
  Result<telemetry::Sample> sample(Seconds at) override;

 private:
  Result<lease::Outcome> ask(const lease::Ask& ask);
  std::string owner_of(const Place& place) const;
  int number_of(const std::string& uuid) const;  // below 0: none
  Result<int> index_of(int gpu);
  lease::LeaseDoors doors_;
  std::string log_;
  std::map<int, std::string> gpus_;  // UUIDs by number
  std::function<Result<FileLock>()> lock_;
};

}  // namespace partita::queue
