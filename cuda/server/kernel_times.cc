#include "server/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/median.h"

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
  for (std::size_t i = 0; i < now_.size(); ++i) {
    times[i].us.push_back(now_[i].us);
    if (now_[i].gap_us) times[i].gap_us.push_back(*now_[i].gap_us);
  }
  now_.clear();
}

std::vector<TimedKernel> KernelTimes::request() const {
  const auto often = std::ranges::max_element(requests_, {}, [](const auto& request) {
    return std::pair(request.second.front().us.size(), request.first.size());
  });
  std::vector<TimedKernel> kernels;
  for (std::size_t i = 0; often != requests_.end() && i < often->first.size(); ++i) {
    const Times& times = often->second[i];
    kernels.push_back({often->first[i].first, often->first[i].second, median(times.us)});
    if (!times.gap_us.empty()) kernels.back().gap_us = median(times.gap_us);
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
    const std::int64_t begun = first.stamps->begun;
    TimedKernel timed{std::move(first.kernel), std::move(first.shape),
                      static_cast<double>(ended - begun) * 1e-3};
    if (before_)
      timed.gap_us = static_cast<double>(std::max<std::int64_t>(0, begun - *before_)) * 1e-3;
    before_ = ended;
    times_.add(std::move(timed));
  }
}

}  // namespace partita::remote::server
