// PowerGuard: changes of clocks and power limits that are undone. Settings outlive the process that
// made them, so what a GPU had before its first change is written to a journal before that change;
// restore() puts it back and empties the journal. After a crash whoever opens the journal next can
// restore what it says. Holds the journal's lock while it lives; refers to files and driver, which
// must outlive it. Single-threaded.
//
// Limit: a driver that does not tell locked clocks (NVML) gets them unlocked by restore().
#pragma once

#include <string>
#include <vector>

#include "base/record_log.h"
#include "base/result.h"
#include "device/node_driver.h"

namespace partita::actuate {

// What a GPU was set to before it was changed.
struct PowerBefore {
  int gpu = 0;
  std::string uuid;
  device::PowerSettings settings;
  bool operator==(const PowerBefore&) const = default;
};

// The record of a journal, and back; refused with `at`.
std::string power_record(const PowerBefore& before);
Result<PowerBefore> parse_power_record(const std::string& at, std::string_view record);

// STATE_DIR/power.journal
std::string power_journal_path(const std::string& state_directory);

// What the journal says is still changed; a journal that is not there says nothing. Takes no lock.
Result<std::vector<PowerBefore>> read_power_journal(Files& files, const std::string& path);

class PowerGuard {
 public:
  // in_use while another process has it open. What a crash left is in changed().
  static Result<PowerGuard> open(Files& files, const std::string& path, device::NodeDriver& driver);

  // Changes the GPU; what it had before is in the journal by then.
  Result<void> set(int gpu, const device::PowerSettings& settings);
  // GPUs that are changed, or may be, by number.
  const std::vector<PowerBefore>& changed() const { return changed_; }
  // Puts every changed GPU back. The first that refuses is the answer; it and the others are tried
  // all the same, and those that refused stay in the journal.
  Result<void> restore();

 private:
  PowerGuard(RecordLog log, device::NodeDriver& driver, std::vector<PowerBefore> changed)
      : log_(std::move(log)), driver_(&driver), changed_(std::move(changed)) {}
  Result<void> restore_one(const PowerBefore& before);
  Result<void> write();

  RecordLog log_;
  device::NodeDriver* driver_;
  std::vector<PowerBefore> changed_;
};

}  // namespace partita::actuate
