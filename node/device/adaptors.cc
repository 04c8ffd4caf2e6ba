// FaultScript, and FaultyDriver and LimitedDriver of adaptors.h.
#include "device/adaptors.h"

#include <algorithm>

namespace partita::device {

// ---- faults ----

// The first fault of the script that the call meets, or null.
const Fault* FaultScript::fault_of(std::string_view method) {
  const std::lock_guard lock(mutex_);
  const int any = ++calls_[""], same = ++calls_[std::string(method)];
  const auto met = std::ranges::find_if(faults_, [&](const Fault& fault) {
    return fault.method.empty() ? fault.call == any : fault.method == method && fault.call == same;
  });
  return met == faults_.end() ? nullptr : &*met;
}

Result<Answer> FaultyDriver::on_call(const Call& call, const Make& make) {
  const auto run = [&] { return make(inner_); };
  if (!changes(call.method)) return run();
  return script_.change(
      name_of(call.method), [&] { return to_string(call); }, run);
}

// ---- limits ----

Result<Answer> LimitedDriver::on_call(const Call& call, const Make& make) {
  const auto denied = [&](const char* why) {
    return failed({ErrorCode::denied, why, to_string(call)});
  };
  if (!changes(call.method)) return make(inner_);
  if (limits_.read_only) return denied("this driver only reads");
  const int gpu = call.arguments.front();
  if (limits_.gpus && std::ranges::find(*limits_.gpus, gpu) == limits_.gpus->end())
    return denied("this GPU is not among those that may be changed");
  return make(inner_);
}

}  // namespace partita::device
