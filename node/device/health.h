// Health: what GPUs say of their health, heard by whoever keeps watch. HealthWatch is the door;
// drivers implement it. HealthChanges turns what can only be read again and again (counters, flags)
// into news. Nothing here decides what is done about it.
// Thread rule: one call at a time per object.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace partita::device {

struct HealthEvent {
  enum class Kind : std::uint8_t {
    xid,           // code: the driver's number
    ecc,           // an error that could not be corrected; code: how many so far
    reset,         // the GPU was reset, or the node has booted: earlier errors are over
    rows_pending,  // rows of memory will be remapped at the next reset; it may be used until then
    rows_failed,   // rows of memory could not be remapped
    recovery,      // what the driver says that it needs; code: GpuRecovery
    // At the first reading: nothing that can be read is wrong. code: 1 where the driver says that
    // it needs nothing, so that what was heard of before is over, too.
    well,
  };
  std::string gpu_uuid;
  Kind kind = Kind::xid;
  int code = 0;
  int gi_id = -1, ci_id = -1;  // of the instance that it happened on; -1: of the whole GPU
  bool operator==(const HealthEvent&) const = default;
};

// What a driver recommends, in NVML's numbers.
enum class GpuRecovery : std::uint8_t {
  none = 0,
  reset = 1,
  reboot = 2,
  drain_peers = 3,      // traffic between GPUs is to be ended, then to be asked again
  drain_and_reset = 4,  // it works on with less
};

// Never waits; what happened while nobody asked is told at the next look, as far as the driver
// keeps it.
class HealthWatch {
 public:
  virtual ~HealthWatch() = default;
  // What happened since the look before, in the order in which it is known.
  virtual std::vector<HealthEvent> look() = 0;
  // What cannot be heard and why, a sentence each; what was said once is not said again.
  virtual std::vector<std::string> complaints() = 0;
};

// What can be read of a GPU at any time; what it does not tell is left out.
struct HealthReading {
  std::string gpu_uuid;
  bool lost = false;                            // then nothing else is told
  std::optional<long> uncorrected_errors = {};  // since the GPU was reset
  std::optional<bool> rows_pending = {}, rows_failed = {};
  std::optional<int> recovery = {};
};

// What is news in readings of the same GPUs. At the first reading of a GPU all that is wrong is
// news, and that nothing is. A counter that falls, a flag that is cleared or a GPU that was lost
// and is there again means that the GPU was reset.
class HealthChanges {
 public:
  std::vector<HealthEvent> hear(const HealthReading& now);

 private:
  std::map<std::string, HealthReading> last_;  // by UUID
};

}  // namespace partita::device
