// Executor: carries out the steps of one change, each of them noted in the journal before and after
// it touches the device. Stops at the first step that fails, and between two steps once
// interrupted; what to do then is apply's decision. Knows no door: it asks (talk.h). Internal to
// actuate.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "act/apply.h"
#include "act/flow.h"
#include "act/talk.h"

namespace partita::actuate {

using Done = Flow<Result<void>>;

// What the flows of a brain share: the journal and the assignment as they were made durable last.
struct Notebook {
  Talk talk;
  JournalState journal;
  Assignment assignment;
  std::vector<plan::Terms> services = {};  // what the change leads to

  // Appends to the journal.
  Done note(const Record& record);
  // Writes the assignment file with the next revision.
  Done assign(const Assignment& wanted);
};

class Executor {
 public:
  // All references must outlive it.
  Executor(Notebook& book, const hw::Catalogue& catalogue, const ApplyOptions& options)
      : book_(book), talk_(book.talk), catalogue_(catalogue), options_(options) {}

  // Carries out `change`, which was planned from `state`.
  Done run(const Change& change, const device::NodeState& state);
  // Changing calls so far.
  long driver_calls() const { return driver_calls_; }
  // Whether the last run ended because a process did not come or go within its time: trying again
  // at once would be to go on without it.
  bool waited_in_vain() const { return waited_in_vain_; }

 private:
  using Key = std::tuple<int, int, std::string>;  // gpu, start, profile
  struct There {
    int gi_id = 0;
    std::vector<device::ComputeInstance> compute;
  };

  Done carry_out(const Step& step);
  Done set_mig(const Step& step);
  Done create_instance(const Step& step);
  Done create_compute(const Step& step);
  Done start(const Step& step);
  Done stop(const Step& step);
  Done drain(const Step& step);
  void note_group(const AssignedSegment& segment);
  void forget_stopped(const std::string& gpu_uuid);
  Done destroy_compute(const Step& step);
  Done destroy_instance(const Step& step);
  Done wait_until_ready(const Step& step, const std::string& device);
  // Until the gateway, if one runs, has ready what was started, and may do without what is to be
  // stopped (none: null).
  Done confirm(const Step* stopping);
  std::string missing(const GatewayState& gateway) const;
  bool is_there(const std::string& device) const;
  std::string too_little(const GatewayState& gateway, const Step& stopping) const;
  // The services keep what they have: segments that were stopped go back to the devices that are
  // still there.
  Done put_back();
  // Asks `question` again while the answer is in_use, for at most the drain timeout.
  template <class Question>
  Done once_free(const Question& question);
  bool may_stop_before(std::size_t step) const;
  bool intended(const Place& place) const;
  Result<int> nvml_enum(const Place& place) const;
  AskUsers users_of(const Place& place) const;
  There& there(const Place& place) { return there_.at({place.gpu, place.start, place.profile}); }

  Notebook& book_;
  Talk& talk_;
  const hw::Catalogue& catalogue_;
  const ApplyOptions& options_;
  const Change* change_ = nullptr;
  std::size_t step_ = 0;
  std::map<Key, There> there_;
  std::map<int, std::string> models_;  // by GPU
  std::map<std::string, int> index_;   // of a GPU, by UUID
  std::map<Key, AssignedSegment> stopped_;
  // Started in this run, with the revision that says so, until the gateway has them ready.
  struct Unconfirmed {
    AssignedSegment segment;
    long revision = 0;
  };
  std::vector<Unconfirmed> unconfirmed_;
  long driver_calls_ = 0;
  bool waited_in_vain_ = false;
  Seconds drain_timeout_;  // with what streams take longer than usual
};

// What is said when somebody wants a change to end.
Error interrupted_error(bool untouched);

}  // namespace partita::actuate
