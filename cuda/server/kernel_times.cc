#include "server/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace partita::remote::server {

std::string shape_of(const LaunchWork& work) {
  const auto& [grid, block] = std::tie(work.grid, work.block);
  return fmt::format("{}x{}x{} {}x{}x{}", grid.x, grid.y, grid.z, block.x, block.y, block.z);
}

void KernelTimes::add(TimedKernel kernel) {
  if (kept_ < kMost) now_.push_back(std::move(kernel)), ++kept_;
}

void KernelTimes::request_ended() {
  if (now_.empty()) return;
  Names names;
  for (const TimedKernel& kernel : now_) names.emplace_back(kernel.name, kernel.shape);
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
    kernels.push_back({often->first[i].first, often->first[i].second, *middle});
  }
  return kernels;
}

LaunchTimes::~LaunchTimes() {
  if (!told_) return;
  request_ended();
  take();
  told_(times_.request());
}

std::shared_ptr<LaunchTimes::Stamps> LaunchTimes::next(const std::string& kernel,
                                                       const LaunchWork& work) {
  if (!told_) return nullptr;
  take();
  launched_.push_back({kernel, shape_of(work), std::make_shared<Stamps>()});
  return launched_.back().stamps;
}

void LaunchTimes::request_ended() {
  if (told_) launched_.push_back({});
}

void LaunchTimes::take() {
  for (; !launched_.empty(); launched_.pop_front()) {
    Launched& first = launched_.front();
    if (first.stamps == nullptr) {
      times_.request_ended();
      continue;
    }
    const std::int64_t ended = first.stamps->ended;
    if (ended == 0) return;
    const double us = static_cast<double>(ended - first.stamps->begun) * 1e-3;
    times_.add({std::move(first.kernel), std::move(first.shape), us});
  }
}

}  // namespace partita::remote::server
