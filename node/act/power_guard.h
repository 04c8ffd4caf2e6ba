// PowerGuard: changes of clocks and power limits that are undone. Settings outlive the process that
// made them, so what a GPU had before its first change is written to a journal before that change;
// restore() puts it back and empties the journal. After a crash whoever opens the journal next can
// restore what it says. Holds the journal's lock while it lives; refers to files and driver, which
// must outlive it. Single-threaded.
//
// A journal lies in a state directory; where all state directories look (`marks`) each changed GPU
// has a mark, a file MARKS + UUID + ".power" that names the journal. Who changes a GPU that another
// journal says is changed puts back what that one says, not what somebody has set meanwhile.
//
// A GPU that is not in the node any more, of which all others answer, keeps its record as long as
// this boot lasts: it may come back with what was set. After that no driver knows of it.
//
// Limit: a driver that does not tell locked clocks (NVML) gets them unlocked by restore().
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
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
  std::string boot = {};  // of the node, then; empty: not known
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
  // in_use while another process has it open. What a crash left is in changed(). `marks` empty:
  // there are none. Who sets GPUs with marks holds their locks.
  static Result<PowerGuard> open(Files& files, const std::string& path, device::NodeDriver& driver,
                                 std::string marks = {});
  // GPUs that are in another journal and not in ours, by their marks.
  Result<std::vector<PowerBefore>> changed_by_others();
  // From now on they are ours to put back.
  Result<void> take_over(const std::vector<PowerBefore>& others);

  // Changes the GPU; what it had before is in the journal by then.
  Result<void> set(int gpu, const device::PowerSettings& settings);
  // GPUs that are changed, or may be, by number.
  const std::vector<PowerBefore>& changed() const { return changed_; }
  // Puts every changed GPU back but those of these UUIDs. The first that refuses is the answer; it
  // and the others are tried all the same, and those that refused stay in the journal.
  Result<void> restore(const std::set<std::string>& kept = {});
  // Those that restore() took out since they are gone from the node.
  const std::vector<PowerBefore>& gone() const { return gone_; }

 private:
  PowerGuard(Files& files, RecordLog log, device::NodeDriver& driver,
             std::vector<PowerBefore> changed)
      : files_(&files), log_(std::move(log)), driver_(&driver), changed_(std::move(changed)) {}
  Result<void> restore_one(const PowerBefore& before);
  std::string mark_of(const std::string& uuid) const { return marks_ + uuid + ".power"; }
  Result<std::optional<PowerBefore>> marked(const std::string& uuid);
  Result<void> note(const PowerBefore& before);
  Result<void> mark(const std::string& uuid);
  Result<void> unmark(const std::string& uuid);
  Result<void> write();

  Files* files_;
  RecordLog log_;
  device::NodeDriver* driver_;
  std::vector<PowerBefore> changed_, gone_;
  std::string path_, marks_, boot_;
};

}  // namespace partita::actuate
