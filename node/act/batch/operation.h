// Operation: looking at the place of an instance, creating it or destroying it with its compute
// instance, as one step that may be repeated: it reads the GPU before and after, so that a lost
// answer, a half-made instance or an earlier attempt do no harm, and it never touches an instance
// that is not the one it is about. Blocks as long as the driver takes. Knows no script; the caller
// decides what a refusal means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/node_driver.h"

namespace partita::exec {

// An instance that was created, by what identifies it.
struct Made {
  int gi_id = 0;
  std::string uuid;  // of the MIG device; empty when its compute instance is missing
  bool operator==(const Made&) const = default;
};

struct Operation {
  enum class Kind { look, create, destroy };
  Kind kind = Kind::look;
  int device = 0;  // GPU index of the driver
  hw::Placement place = {};
  int nvml_enum = 0;
  int size = 0;                   // memory slices
  std::vector<int> present = {};  // create: the gi_ids that the look before it has found
  Made made = {};                 // destroy
  bool operator==(const Operation&) const = default;
};

// Of a look that found the place free: who is there. A create that went wrong after the instance
// was there has both error and made: it is still there. Errors are the driver's, and their message
// names who is in the way: no_room the instances, in_use the processes.
struct Outcome {
  std::vector<int> present = {};
  std::optional<Made> made = {};
  std::optional<Error> error = {};
  bool unknown = false;  // of a create with an error: the GPU cannot be read, it may be there
  bool operator==(const Outcome&) const = default;
};

Outcome perform(device::NodeDriver& driver, const Operation& operation);

// "2g.12gb@0 (gi 3, held by 4711 python)"
std::string describe(const device::Instance& instance);

}  // namespace partita::exec
