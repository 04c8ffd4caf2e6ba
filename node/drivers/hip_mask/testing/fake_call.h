// What every function of the simulated HIP begins with: faults on demand, the thread's device, and
// whether its handles are alive. Thread rule: any thread.
#pragma once

#include <string>

#include "drivers/hip_mask/testing/machine.h"

namespace partita::drivers::hip_mask::fake {

using Lock = std::unique_lock<std::mutex>;

inline thread_local int device_of_thread = -1;

enum class Kind { plain, on_device, destroying };

// One call: faults, the thread's device, then what it does.
template <class Body>
abi::Status call(const char* name, Kind kind, Body body) {
  Machine& m = machine();
  Lock lock(m.mutex);
  const bool fails = m.fails_in > 0 && --m.fails_in == 0;
  if (fails) m.failed = true;
  if (fails && kind != Kind::destroying) return static_cast<abi::Status>(m.fails_with);
  if (kind != Kind::plain && device_of_thread < 0) {
    m.violated(std::string(name) + " in a thread without a device");
    return abi::Status::invalid_context;
  }
  if (kind == Kind::on_device && m.lost) return abi::Status::illegal_address;
  const abi::Status done = body(m, lock);
  if (done == abi::Status::invalid_handle)
    m.violated(std::string(name) + " with a handle that is not alive");
  return fails ? static_cast<abi::Status>(m.fails_with) : done;
}

}  // namespace partita::drivers::hip_mask::fake
