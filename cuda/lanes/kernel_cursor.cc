#include "lanes/kernel_cursor.h"

#include <algorithm>

namespace partita::lanes {
namespace {

constexpr std::size_t kMostStreams = 4096;  // of a request: then all begin anew

}  // namespace

KernelCursor::KernelCursor(std::vector<Step> steps, std::size_t otherwise)
    : steps_(std::move(steps)), otherwise_(otherwise), had_(steps_.size()) {
  by_shape_ = std::ranges::any_of(
      steps_, [](const Step& step) { return step.kernel.find(' ') != step.kernel.npos; });
}

std::size_t KernelCursor::lane_of(const std::string& kernel, const std::string& shape,
                                  std::uint64_t stream) {
  const std::string shaped = by_shape_ ? kernel + ' ' + shape : std::string();
  if (next_.size() >= kMostStreams) next_.clear();
  std::size_t& next = next_[stream];
  for (std::size_t at = next; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    if (had_[at] == request_) continue;
    if (step.kernel != kernel && (!by_shape_ || step.kernel != shaped)) continue;
    had_[at] = request_;
    next = at + 1;
    return step.lane;
  }
  return ++unknown_, otherwise_;
}

}  // namespace partita::lanes
