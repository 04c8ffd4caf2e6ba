// CpuHouse: units of this machine that the sessions of one process share, kernels placed on them by
// a policy of decide/kernel_policies.h or by a plan. A policy is asked for those who are there:
// whenever a worker comes (with its first kernel) or goes, and taken up with the next request.
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hw/topology.h"
#include "profile/kernel_profile.h"
#include "server/cpu/cpu_backend.h"
#include "sim/colocation.h"

namespace partita::cli {

// Who may come, and what decides where their kernels run.
struct KernelPolicy {
  std::string policy = {};  // a word of kernel_policy_words(), eclip:N, or "eclip" with units below
  hw::Topology topology = {};
  int atom = 1;
  std::vector<profile::ModelKernels> workers = {};
  std::vector<std::vector<int>> plan_units = {};  // of a plan for all of them; empty: none
};

class CpuHouse : public std::enable_shared_from_this<CpuHouse> {
 public:
  explicit CpuHouse(KernelPolicy policy) : policy_(std::move(policy)) {}

  // A session of this worker.
  Result<std::unique_ptr<remote::server::DeviceBackend>> open(const std::string& worker,
                                                              std::uint64_t memory,
                                                              std::uint32_t checks);

 private:
  class Member;
  using Placings = std::vector<std::shared_ptr<const remote::cpu::Placing>>;  // by worker
  Result<std::shared_ptr<remote::cpu::SharedUnits>> units();
  void arrange();
  std::shared_ptr<const remote::cpu::Placing> place(const sim::MaskPolicy& policy,
                                                    std::size_t present, std::size_t worker) const;

  const KernelPolicy policy_;
  std::mutex mutex_;  // of what follows
  std::shared_ptr<remote::cpu::SharedUnits> units_;
  std::vector<int> present_ = std::vector<int>(policy_.workers.size());  // sessions of each worker
  Placings placings_ = Placings(policy_.workers.size());                 // of those present
};

}  // namespace partita::cli
