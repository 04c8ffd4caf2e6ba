// Forms of leases: the documents Lease, Leases, LeaseWanted and Refusal, shell lines, text; what
// somebody wants, in words, and what is asked of the brain for it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "act/lease/leases.h"
#include "base/form.h"

namespace partita::lease {

// What somebody wants, as flags or a body of the API say it.
struct Wanted {
  std::string owner;
  std::string profile = {};  // may be empty where `from` is not
  std::optional<int> gpu = {}, start = {};
  bool exact = false;
  std::optional<double> ttl_s = {};
  long while_pid = 0;      // 0: none
  std::string from = {};  // whose lease it is to become
};
// bad_input whose context is the key: what does not go together, a process that does not live.
Result<Ask> ask_of(const Wanted& wanted, Processes& processes, std::int64_t now_ms);
Result<Wanted> parse_wanted(const std::string& file, std::string_view text);
std::string wanted_json(const Wanted& wanted);

// The nodes of a device, as a container or a cgroup needs them. `mig_minors` is the driver's table
// /proc/driver/nvidia-caps/mig-minors; where it is empty, or does not name the instance, the
// numbers that the driver gives since R450 are computed. The minor of a GPU is taken to be its
// index.
struct DeviceNodes {
  int gpu_minor = 0, gpu_instance_minor = 0, compute_instance_minor = 0;
  std::vector<std::string> paths;  // "/dev/nvidia0" ...
  bool operator==(const DeviceNodes&) const = default;
};
DeviceNodes device_nodes(const Lease& lease, std::string_view mig_minors);

// A lease as a document.
struct LeaseDocument {
  Lease lease;
  DeviceNodes nodes;
  bool operator==(const LeaseDocument&) const = default;
};
LeaseDocument document_of(const Lease& lease, std::string_view mig_minors);
std::string lease_json(const LeaseDocument& lease);
Result<LeaseDocument> parse_lease(const std::string& file, std::string_view text);
std::string lease_text(const LeaseDocument& lease);
// export CUDA_VISIBLE_DEVICES='MIG-...' and PARTITA_LEASE_*, a line each.
std::string lease_shell(const LeaseDocument& lease);

struct LeasesDocument {
  std::vector<LeaseDocument> leases;
  std::vector<std::string> returned;  // owners whose leases have ended now
};
std::string leases_json(const LeasesDocument& leases);
Result<LeasesDocument> parse_leases_document(const std::string& file, std::string_view text);
std::string leases_text(const LeasesDocument& leases, std::int64_t now_ms);

// Kind Refusal: `reasons`, and the shapes that are free.
std::string refusal_json(const Refused& refused);
// An answer that is no, as an error.
Error error_of(const Refused& refused);

DocumentKind lease_kind();
DocumentKind leases_kind();
DocumentKind lease_wanted_kind();

}  // namespace partita::lease
