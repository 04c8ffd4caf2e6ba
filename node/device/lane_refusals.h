// What lane drivers refuse alike: masks that no device has, and the words of refusals.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "device/lane_driver.h"
#include "hw/topology.h"

namespace partita::device {

tl::unexpected<Error> refused(ErrorCode code, std::string message, std::string call);

// "launch(lane 3)": the call of an error.
std::string lane_call(std::string_view name, int lane);

// The error of a step inside a call of the door.
tl::unexpected<Error> within(std::string call, const Error& error);
// What a step inside a call came to; its error as above.
template <class T>
Result<T> within(std::string_view call, Result<T> step) {
  if (!step) return within(std::string(call), step.error());
  return step;
}
template <class T>
Result<T> within(std::string_view name, int lane, Result<T> step) {
  if (!step) return within(lane_call(name, lane), step.error());
  return step;
}

// Whether a lane can have the mask, atoms excepted: it has a unit, none that the topology has not,
// and one of every die. Else invalid_argument, with the call as context.
Result<void> check_mask(const hw::Topology& topology, const hw::UnitMask& mask,
                        const std::string& call);

// The code of a kernel that a GPU can run. not_supported for one of threads; invalid_argument for
// one without code or with a grid or blocks that no GPU has: 2^31 - 1 work-groups along x, 65,535
// along y and z, 1,024 threads each, fewer than 2^32 threads along x. `call` is the context.
Result<const DeviceKernel*> device_kernel(const Kernel& kernel, const std::string& call);

}  // namespace partita::device
