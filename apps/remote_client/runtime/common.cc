// What the shims of the runtime and of the driver both need.
#include <cstdio>
#include <cstring>
#include <span>

#include "abi.h"

namespace partita::remote::shim {

using client::kOk;

Status& last_error() {
  thread_local Status status = kOk;
  return status;
}

Status unsupported(const char* function) {
  try {
    client::session().refuse(function);
  } catch (...) {
    std::fputs("partita remote: out of memory\n", stderr);
  }
  return remember(client::kNotSupported);
}

Status tell_memory(std::size_t* free, std::size_t* total) {
  const auto state = session().memory.state();
  if (!state) return state.error();
  if (free != nullptr) *free = state->free;
  if (total != nullptr) *total = state->total;
  return kOk;
}

Status tell_elapsed(float* ms, void* from, void* to) {
  const auto ns = session().events.elapsed_ns(number_of(from), number_of(to));
  if (!ns) return ns.error();
  if (ms == nullptr) return client::kInvalidValue;
  constexpr double kPerMillisecond = 1e6;
  *ms = static_cast<float>(static_cast<double>(*ns) / kPerMillisecond);
  return kOk;
}

// What lets a launch begin early, or says what memory and clusters are good for, may be left out:
// launches of a stream run one behind the other here.
Status read(const LaunchAttribute* attributes, unsigned count, bool& cooperative) {
  enum { kIgnored, kWindow, kCooperative, kWaiting, kCluster, kClusterPolicy, kEarlyStart };
  constexpr int kPriority = 8, kDomainMap = 9, kDomain = 10, kCarveout = 14;
  for (const LaunchAttribute& one : std::span(attributes, count)) {
    switch (one.id) {
      case kCooperative:
        cooperative = one.value.number != 0;
        break;
      case kCluster: {
        Dim3 cluster;
        std::memcpy(&cluster, one.value.bytes, sizeof cluster);
        if (cluster.x * cluster.y * cluster.z > 1) return unsupported("clusters of blocks");
        break;
      }
      case kIgnored:
      case kWindow:
      case kWaiting:
      case kClusterPolicy:
      case kEarlyStart:
      case kPriority:
      case kDomainMap:
      case kDomain:
      case kCarveout:
        break;
      default:
        return unsupported("an attribute of a launch");
    }
  }
  return kOk;
}

}  // namespace partita::remote::shim
