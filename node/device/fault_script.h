// What goes wrong with calls, by a script, for adaptors around drivers (adaptors.h and
// testing/lane_adaptors.h).
// Any thread may call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/result.h"

namespace partita::device {

// What goes wrong with one call: the `call`-th changing call of `method` (counted from 1; of any
// method when empty) fails with `code`; before that it blocks for `hang_ns`; with `after_effect`
// the call takes effect first and the answer is lost.
struct Fault {
  std::string method;  // "create_instance", "destroy_compute" ...; empty: any changing call
  int call = 0;
  ErrorCode code = ErrorCode::environment;
  std::int64_t hang_ns = 0;
  bool after_effect = false;
  bool dies = false;  // on_death is called instead of an answer; it does not return normally
  bool operator==(const Fault&) const = default;
};

class FaultScript {
 public:
  FaultScript(Clock& clock, std::vector<Fault> faults, std::function<void()> on_death)
      : clock_(clock), faults_(std::move(faults)), on_death_(std::move(on_death)) {}

  // Counts a changing call and makes it, or does what the first fault that it meets says. `text`
  // gives the call for the error.
  template <class Text, class Run>
  auto change(std::string_view method, Text text, Run run) -> decltype(run()) {
    const Fault* fault = fault_of(method);
    if (!fault) return run();
    clock_.sleep_ns(fault->hang_ns);
    if (fault->after_effect) (void)run();
    if (fault->dies) {
      CHECK(on_death_);
      on_death_();
    }
    return failed({fault->code, "a fault of the script", text()});
  }

 private:
  const Fault* fault_of(std::string_view method);

  Clock& clock_;
  const std::vector<Fault> faults_;
  const std::function<void()> on_death_;
  std::mutex mutex_;                               // of calls_
  std::map<std::string, int, std::less<>> calls_;  // per method; "" counts all changing calls
};

}  // namespace partita::device
