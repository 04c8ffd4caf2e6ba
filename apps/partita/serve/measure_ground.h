// Where `profile measure` runs its workers: cores of this machine, or a GPU. What a ground borrows
// (instances, MPS daemons) it puts back when it is left and when it dies.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/processes.h"
#include "context.h"
#include "node/devices.h"
#include "serve/wire/tensor.h"

namespace partita::cli {

// How the workers of one instance size are started.
struct WorkerPlaces {
  std::vector<std::string> words;                                // for `partita worker`
  std::vector<std::map<std::string, std::string>> environments;  // one per worker
};

class MeasureGround {
 public:
  virtual ~MeasureGround() = default;
  // What --instances may say, and the sizes that it says, ascending.
  virtual Result<std::vector<int>> sizes(const std::string& flag, const std::string& text) = 0;
  // No worker runs. Leaves what it was in before.
  virtual Result<WorkerPlaces> enter(int size, int processes) = 0;
  // The workers have ended.
  virtual Result<void> leave() = 0;
  // Whether a worker with this model runs where it is meant to.
  virtual Result<void> check(const serve::ModelSpec& model) = 0;
  // Of all workers together; nothing where nobody tells.
  virtual std::optional<Mib> memory(const std::vector<Pid>& workers) = 0;
};

std::unique_ptr<MeasureGround> cpu_ground(Context& context, std::vector<int> cpus);
// `folder`: for MPS daemons, short. The driver is opened here.
Result<std::unique_ptr<MeasureGround>> gpu_ground(Context& context, const DeviceFlags& device,
                                                  int gpu, const std::string& folder);

}  // namespace partita::cli
