// Records of the log of leases (base/record_log.h): JSON, one per change of a lease, each with all
// that is known of it. The last record of a lease counts.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/record_log.h"
#include "base/result.h"
#include "hw/layout.h"

namespace partita::lease {

inline constexpr const char* kLeaseLogKind = "leases";
inline constexpr std::size_t kMaxLeases = 10'000;  // that stand at the same time
inline constexpr std::size_t kMaxOwner = 200;      // characters

// Until when a lease stands; nothing said: until it is returned.
struct Terms {
  long until_ms = 0;     // since 1970; 0: no such end
  long pid = 0;          // while this process lives; 0: no such end
  std::string identity = {};  // what tells that process from a later one of its number
  bool operator==(const Terms&) const = default;
};

struct LeaseRecord : hw::Placement {  // the driver's name where the model is unknown
  enum class State { intended, made, returning, gone };
  long lease = 0;  // from 1
  State state = State::intended;
  std::string owner;
  std::string gpu;     // UUID
  int profile_id = 0;  // the driver's
  std::string device;  // UUID of the MIG device; empty while it is intended
  long since_ms = 0;
  Terms terms = {};
  bool operator==(const LeaseRecord&) const = default;
};

// Why this is no name of an owner: 1 to kMaxOwner of A-Z a-z 0-9 . _ : / @ + = , -, not beginning
// with one of / - ; empty: it is.
std::string owner_fault(std::string_view owner);
// Whether a lease of `owner` is meant by `named`: it is that, or one of its parts, "slurm:42/2" of
// "slurm:42".
bool belongs(std::string_view owner, std::string_view named);

std::string lease_record_text(const LeaseRecord& record);

// The leases that stand, by number, with the highest number that was given. Refused with FILE:LINE:
// no record, two leases of an owner.
struct StandingLeases {
  std::map<long, LeaseRecord> leases;
  long last = 0;
  bool operator==(const StandingLeases&) const = default;

  // The lease of exactly this owner, or null.
  const LeaseRecord* of(std::string_view owner) const;
};
Result<StandingLeases> standing_leases(const std::string& file, const ParsedLog& log);
// The same of a whole log as text; of an empty one none.
Result<StandingLeases> parse_leases(const std::string& file, std::string_view text);

}  // namespace partita::lease
