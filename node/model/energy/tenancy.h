// Which service or task is on which instance, as far as a plan, an assignment or a schedule says.
// Telemetry names instances by UUID and GPU instance id, plans by profile and start: what leads
// from one to the other is said here, and what had to be guessed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "hw/layout.h"
#include "hw/telemetry/sample.h"

namespace partita::energy {

// That a service has an instance. GPUs are meant by UUID, or by index where that is empty.
struct Tenure : hw::Placement {               // of the instance
  std::string service = {};                   // or the task
  std::string device = {};                    // UUID of the MIG device; empty: by the place
  std::string gpu_uuid = {};                  // of its GPU
  int gpu = -1;                               // index
  double percent = 0;                         // > 0: a share of a whole GPU without instances
  std::optional<Seconds> from = {}, to = {};  // on the log's clock; none: always
};

struct Tenancy {
  std::vector<Tenure> tenures;
  // Where instances are, from somebody who asked the driver: by GPU UUID and GPU instance id.
  std::map<std::pair<std::string, int>, hw::Placement> places;
};

// A service on an instance (or a GPU), and for which part of a time.
struct Occupied {
  std::string service;
  double part = 1;     // of the interval
  double percent = 0;  // of the GPU, for shares of whole GPUs
};

// Answers for a log; remembers what it guessed.
class TenantFinder {
 public:
  explicit TenantFinder(const Tenancy& tenancy) : tenancy_(tenancy) {}

  // Who was on an instance of `gpu` between two times; parts add up to at most 1. Empty: nobody
  // that is known.
  std::vector<Occupied> on(const telemetry::GpuSample& gpu,
                           const telemetry::InstanceSample& instance, Seconds from, Seconds to);
  // Who shares a whole GPU.
  std::vector<Occupied> on(const telemetry::GpuSample& gpu) const;
  // Sentences, sorted.
  std::vector<std::string> guesses() const;

 private:
  std::vector<const Tenure*> tenures_of(const telemetry::GpuSample& gpu,
                                        const telemetry::InstanceSample& instance);

  const Tenancy& tenancy_;
  std::map<std::string, int> guesses_;
};

}  // namespace partita::energy
