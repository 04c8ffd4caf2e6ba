// Assignment: which segment runs on which MIG device, as a file. `partita apply` writes it
// atomically whenever it switches a service to another instance; whoever runs the workers follows
// it (`partita workers` does). So the two need no other channel, and each may be killed and started
// again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"
#include "device/node_forms.h"
#include "hw/layout.h"
#include "plan/terms.h"
#include "profile/token_engine.h"

namespace partita::actuate {

inline constexpr int kMaxProcessesPerSegment = 128;

// What runs on an instance; an empty service: nothing that Partita knows of.
struct Segment {
  std::string service;
  int batch = 0, processes = 0;
  double throughput_rps = 0;  // what it is planned to carry; 0: unknown
  int held = 0;               // models at once, of a set of them
  // SMs on which a language model's prompts are computed, and those that decode; 0: all do both.
  int prefill_units = 0, decode_units = 0;
  profile::EngineName engine = {};  // of a language model
  bool operator==(const Segment&) const = default;
};

struct AssignedSegment : hw::Placement, Segment {
  // UUID of the MIG device, "MIG-..."; of a segment on a group of whole GPUs theirs, with commas.
  // As CUDA_VISIBLE_DEVICES takes it.
  std::string device = {};
  std::string gpu_uuid = {};  // of its GPU; of a group the first
  bool operator==(const AssignedSegment&) const = default;
};

// What few segments say of themselves, in whatever document they are.
void describe_shares(Form& f, Segment& one);

// The UUIDs of the whole GPUs that a device stands for; none: it is a MIG device.
std::vector<std::string> whole_gpus(const std::string& device);
// The field "device": a name, or those of the GPUs of a group with commas between.
void device_field(Form& f, std::string& device, std::string_view about);

struct Assignment {
  long revision = 0;                       // grows with every write
  std::vector<AssignedSegment> segments;   // by device
  std::vector<plan::Terms> services = {};  // by name; may lack some, older files have none
  bool operator==(const Assignment&) const = default;
};

// Services by MIG device, and by GPU of which one has all.
device::Occupants occupants_of(const Assignment& assignment);

// The document `kind: Assignment`; parse_assignment(assignment_json(a)) == a. Refused with
// FILE:LINE: a device or a service twice, empty names, negative numbers, more than
// kMaxProcessesPerSegment.
std::string assignment_json(const Assignment& assignment);
Result<Assignment> parse_assignment(const std::string& file, std::string_view text);
// The same as an object in another document.
void describe_assignment(Form& f, Assignment& assignment);

// Terms as the files of this module keep them. Older versions wrote the percentile 99 where nobody
// had said it, and then no model: that is read as not known.
void describe_kept_terms(Form& f, plan::Terms& terms);

// The services of an assignment on its way: `wanted`, and of those before what still has segments.
std::vector<plan::Terms> services_amid(const std::vector<plan::Terms>& wanted,
                                       const Assignment& now);

}  // namespace partita::actuate
