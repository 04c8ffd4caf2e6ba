#include "lanes/kernel_cursor.h"

#include <algorithm>

namespace partita::lanes {

KernelCursor::KernelCursor(std::vector<Step> steps, std::size_t otherwise)
    : steps_(std::move(steps)), otherwise_(otherwise) {
  by_shape_ = std::ranges::any_of(
      steps_, [](const Step& step) { return step.kernel.find(' ') != step.kernel.npos; });
}

std::size_t KernelCursor::lane_of(const std::string& kernel, const std::string& shape) {
  const std::string shaped = by_shape_ ? kernel + ' ' + shape : std::string();
  const auto from = steps_.begin() + static_cast<long>(next_);
  const auto found = std::find_if(from, steps_.end(), [&](const Step& step) {
    return step.kernel == kernel || (by_shape_ && step.kernel == shaped);
  });
  if (found == steps_.end()) return ++unknown_, otherwise_;
  next_ = static_cast<std::size_t>(found - steps_.begin()) + 1;
  return found->lane;
}

}  // namespace partita::lanes
