// ChangeOrder: which reconfiguration goes next. The driver does one at a time per node. They go in
// the order in which they are planned; one overtakes another only once its own planned time has
// passed and the other cannot begin, so without differences nothing happens later than planned (as
// in sim/batch). What the schedule does not plan (destroying at the end) goes last, but on a GPU
// that has to be left in a hurry. Keeps a reference to the script.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "act/batch/script.h"

namespace partita::exec {

// A place in the order: GPU of the script, index into its changes.
struct ChangeId {
  int gpu = 0, rank = 0;
  auto operator<=>(const ChangeId&) const = default;
};

class ChangeOrder {
 public:
  explicit ChangeOrder(const Script& script);
  ChangeId id(int visit, bool create) const;
  const Change& at(ChangeId id) const;

  // It may begin from that time on.
  void ready(ChangeId id, Nanos not_before);
  // It is over, or will never be: it keeps no other one waiting.
  void done(ChangeId id);
  bool is_done(ChangeId id) const;

  // The GPU is needed for something else: what is to happen there waits for nothing planned.
  void hurry(int gpu);

  // What should begin now; it is then no longer ready.
  std::optional<ChangeId> take(Nanos now);
  // When take() may have another answer though nothing was called in between.
  std::optional<Nanos> wake(Nanos now) const;

 private:
  struct Gpu {
    std::map<int, Nanos> ready;  // rank to the time from which it may begin
    std::vector<bool> done;      // per rank
    bool hurried = false;
  };
  // From when on it may begin as things are; kForever: not before others are done.
  Nanos may_begin(int gpu, int rank, Nanos not_before) const;

  const Script& script_;
  std::vector<Gpu> gpus_;
  std::vector<ChangeId> create_, destroy_;  // per visit
  std::vector<ChangeId> planned_;           // by time
  std::size_t first_ = 0;                   // of them the first that is not done
  int planned_left_ = 0;                    // of them those that are not done
};

}  // namespace partita::exec
