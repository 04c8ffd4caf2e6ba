// Reason: one refusal as data. The judge's violations and the planners' infeasibilities are lists
// of these.
#pragma once

#include <string>
#include <vector>

namespace partita::plan {

// The word of a search that gave up: a plan may exist. Refusals are proven, but for kUnproven's.
inline constexpr const char* kNotFound = "not_found";

struct Reason {
  std::string constraint;  // a fixed word: "rate", "slo", "memory_slices", "unknown_service" ...
  std::string subject;     // what it is about: "service bert", "gpu 3 instance 1"
  double have = 0;
  double need = 0;
  std::string detail;  // one sentence for people, with units; may be empty
  bool operator==(const Reason&) const = default;
};

// Whether reasons, each sufficient, prove that there is nothing to be found.
bool proven(const std::vector<Reason>& reasons);

// "service bert: rate: have 17.5, need 19 (…detail…)"
std::string to_string(const Reason& reason);

}  // namespace partita::plan
