// Event sets: which GPUs each listens to, for what, and up to where it has heard. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "drivers/nvml_mig/nvml_functions.h"
#include "drivers/sim/machine.h"

namespace partita::nvml_sim {

class EventSets {
 public:
  int make();
  void forget(int set);
  // From now on: what the GPU reported before is not heard.
  void listen(int set, int gpu, unsigned long long types, long reported);
  // The next event that the set has not given yet; its device is left out. By GPU, then by number.
  struct Heard {
    int gpu = 0;
    drivers::nvml_mig::abi::EventData data{};
  };
  std::optional<Heard> next(int set, const drivers::sim::Machine& machine);

 private:
  struct Listening {
    unsigned long long types = 0;
    long heard = 0;    // the number of the last XID
    bool ecc = false;  // the ECC event of that XID is still to be given
  };
  std::mutex mutex_;
  int next_ = 0;
  std::map<int, std::map<int, Listening>> sets_;  // by set and GPU
};

}  // namespace partita::nvml_sim
