#include "remote/cpu_house.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "decide/kernel_inputs.h"
#include "decide/kernel_policies.h"

namespace partita::cli {

using remote::cpu::Placing;
using remote::cpu::SharedUnits;

namespace {

// Masks of these depend on what runs.
constexpr std::array<std::string_view, 5> kLive = {"default-stream", "krisp-o", "krisp-i",
                                                   "isolated", "critical"};

}  // namespace

// A worker's session: there from its first kernel on.
class CpuHouse::Member final : public remote::cpu::Tenant {
 public:
  Member(std::shared_ptr<CpuHouse> house, std::size_t worker)
      : house_(std::move(house)), worker_(worker) {}
  ~Member() override {
    if (!here_) return;
    const std::lock_guard lock(house_->mutex_);
    --house_->present_[worker_];
    house_->arrange();
    if (unplanned_ > 0)
      fmt::print(stderr, "partita: {}: {} kernels are not those of its profile: all units\n",
                 house_->policy_.workers[worker_].model, unplanned_);
  }

  std::shared_ptr<const Placing> placing() override {
    const std::lock_guard lock(house_->mutex_);
    if (!here_) {
      here_ = true;
      ++house_->present_[worker_];
      house_->arrange();
    }
    return house_->placings_[worker_];
  }
  void unplanned() override { ++unplanned_; }

 private:
  const std::shared_ptr<CpuHouse> house_;
  const std::size_t worker_;
  bool here_ = false;
  long unplanned_ = 0;
};

Result<std::unique_ptr<remote::server::DeviceBackend>> CpuHouse::open(const std::string& worker,
                                                                      std::uint64_t memory,
                                                                      std::uint32_t checks) {
  auto shared = TRY(units());
  const auto found = std::ranges::find(policy_.workers, worker, &profile::ModelKernels::model);
  auto member = std::make_shared<Member>(shared_from_this(),
                                         static_cast<std::size_t>(found - policy_.workers.begin()));
  return remote::cpu::CpuBackend::open({.memory = memory,
                                        .flags = checks,
                                        .shared = std::move(shared),
                                        .tenant = std::move(member)});
}

Result<std::shared_ptr<SharedUnits>> CpuHouse::units() {
  const std::lock_guard lock(mutex_);
  if (units_) return units_;
  auto opened = SharedUnits::open(policy_.topology.units());
  if (opened) units_ = *opened;
  return opened;
}

// For those who are there; a plan is for all.
void CpuHouse::arrange() {
  std::vector<std::size_t> there;
  std::vector<profile::ModelKernels> models;
  for (std::size_t i = 0; i < present_.size(); ++i) {
    if (present_[i] == 0 && policy_.plan_units.empty()) continue;
    there.push_back(i);
    models.push_back(policy_.workers[i]);
  }
  if (there.empty()) return;
  const hw::Topology& topology = policy_.topology;
  const auto masks = decide::kernel_policy(
      policy_.policy, {.topology = topology,
                       .workers = models,
                       .atom = policy_.atom,
                       .sizes = hw::mask_sizes(topology, policy_.atom),
                       .plan_units = policy_.plan_units,
                       .configs = *decide::load_configs("", topology, policy_.atom)});
  if (!masks) return fmt::print(stderr, "partita: {}\n", to_string(masks.error()));
  for (std::size_t i = 0; i < there.size(); ++i) placings_[there[i]] = place(*masks, i, there[i]);
}

std::shared_ptr<const Placing> CpuHouse::place(const sim::MaskPolicy& policy, std::size_t present,
                                               std::size_t worker) const {
  auto placing = std::make_shared<Placing>();
  const auto& kernels = policy_.workers[worker].kernels;
  for (const auto& kernel : kernels) placing->kernels.push_back(kernel.name);
  const hw::UnitMask all = hw::all_units(policy_.topology);
  if (std::ranges::find(kLive, policy_.policy) != kLive.end()) {
    placing->live = [policy, present, count = kernels.size(), all](
                        std::size_t kernel,
                        const std::vector<int>& running) -> std::optional<hw::UnitMask> {
      const auto mask = policy(present, std::min(kernel, count - 1), running);
      return mask && kernel == count ? all : mask;
    };
    return placing;
  }
  const std::vector<int> idle(static_cast<std::size_t>(policy_.topology.units()));
  for (std::size_t k = 0; k < kernels.size(); ++k)
    placing->masks.push_back(policy(present, k, idle).value_or(all));
  const bool one = std::ranges::count(placing->masks, placing->masks[0]) ==
                   static_cast<std::ptrdiff_t>(kernels.size());
  placing->masks.push_back(one ? placing->masks[0] : all);
  return placing;
}

}  // namespace partita::cli
