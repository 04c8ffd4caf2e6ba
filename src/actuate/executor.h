// Executor: carries out the steps of one change, each of them noted in the journal before and after
// it touches the device. Stops at the first step that fails; what to do then is apply's decision.
// Internal to actuate.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "actuate/apply.h"

namespace partita::actuate {

class Executor {
 public:
  // All references must outlive it. `assignment` is kept up to date with the file.
  Executor(const Doors& doors, Journal& journal, Assignment& assignment,
           const ApplyOptions& options, const ApplyObserver& observe)
      : doors_(doors),
        journal_(journal),
        assignment_(assignment),
        options_(options),
        observe_(observe) {}

  // Carries out `change`, which was planned from `state`.
  Result<void> run(const Change& change, const device::NodeState& state);
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

  Result<void> carry_out(const Step& step);
  Result<void> enable_mig(const Step& step);
  Result<void> create_instance(const Step& step);
  Result<void> create_compute(const Step& step);
  Result<void> start(const Step& step);
  Result<void> stop(const Step& step);
  Result<void> drain(const Step& step);
  Result<void> destroy_compute(const Step& step);
  Result<void> destroy_instance(const Step& step);
  Result<void> wait_until_ready(const Step& step, const std::string& device);
  Result<void> intend(const Place& place);
  bool intended(const Place& place) const;
  Result<int> nvml_enum(const Place& place) const;
  // Tries `call` again while it answers in_use, for at most the drain timeout.
  template <class Call>
  Result<void> once_free(Call call);
  Result<std::vector<device::Holder>> holders(const Place& place, int gi_id);
  // Who keeps an instance from being destroyed, in words; empty: nobody.
  Result<std::string> users(const Place& place);

  const Doors& doors_;
  Journal& journal_;
  Assignment& assignment_;
  const ApplyOptions& options_;
  const ApplyObserver& observe_;
  const Change* change_ = nullptr;
  std::size_t step_ = 0;
  std::map<Key, There> there_;
  std::map<int, std::string> models_;       // by GPU
  std::map<Key, AssignedSegment> stopped_;  // to put back when their drain fails
  long driver_calls_ = 0;
  bool waited_in_vain_ = false;
};

// Writes the assignment file with the next revision.
Result<void> write_assignment(const Doors& doors, Assignment& assignment);

}  // namespace partita::actuate
