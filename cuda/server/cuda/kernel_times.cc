#include "server/cuda/kernel_times.h"

#include <algorithm>

namespace partita::remote::cuda {

void KernelTimes::add(const std::string& kernel, double us) {
  if (kept_ < kMost) now_.push_back({kernel, us}), ++kept_;
}

void KernelTimes::request_ended() {
  if (now_.empty()) return;
  Names names;
  for (const TimedKernel& kernel : now_) names.push_back(kernel.name);
  auto& times = requests_[std::move(names)];
  times.resize(now_.size());
  for (std::size_t i = 0; i < now_.size(); ++i) times[i].push_back(now_[i].us);
  now_.clear();
}

std::vector<TimedKernel> KernelTimes::request() const {
  const auto often = std::ranges::max_element(requests_, {}, [](const auto& request) {
    return std::pair(request.second.front().size(), request.first.size());
  });
  std::vector<TimedKernel> kernels;
  for (std::size_t i = 0; often != requests_.end() && i < often->first.size(); ++i) {
    std::vector<double> times = often->second[i];
    const auto middle = times.begin() + static_cast<long>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    kernels.push_back({often->first[i], *middle});
  }
  return kernels;
}

std::size_t KernelCursor::lane_of(const std::string& kernel) {
  const auto from = steps_.begin() + static_cast<long>(next_);
  const auto found =
      std::find_if(from, steps_.end(), [&](const Step& step) { return step.kernel == kernel; });
  if (found == steps_.end()) return ++unknown_, otherwise_;
  next_ = static_cast<std::size_t>(found - steps_.begin()) + 1;
  return found->lane;
}

}  // namespace partita::remote::cuda
