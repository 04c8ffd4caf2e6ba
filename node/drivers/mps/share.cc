#include "drivers/mps/share.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"

namespace partita::drivers::mps {

using Constraint = ShareFault::Constraint;

std::vector<Share> equal_shares(int clients, Mib memory) {
  CHECK(clients >= 1 && clients <= kMaxClients);
  const Share share{.percentage = std::floor(100.0 / clients),
                    .pinned_memory = {std::floor(memory.value / clients)}};
  return std::vector(static_cast<std::size_t>(clients), share);
}

std::vector<ShareFault> check_shares(const std::vector<Share>& shares, const ShareRules& rules) {
  std::vector<ShareFault> faults;
  const auto clients = static_cast<double>(shares.size());
  if (clients > kMaxClients) faults.push_back({Constraint::clients, -1, kMaxClients, clients});
  double percentage = 0;
  Mib memory;
  for (int i = 0; i < static_cast<int>(shares.size()); ++i) {
    const Share& share = shares[static_cast<std::size_t>(i)];
    // Written so that NaN is refused too.
    if (!(share.percentage > 0 && share.percentage <= 100))
      faults.push_back({Constraint::percentage, i, 100, share.percentage});
    if (!(share.pinned_memory.value >= 0))
      faults.push_back({Constraint::memory, i, rules.memory.value, share.pinned_memory.value});
    percentage += share.percentage;
    memory += share.pinned_memory;
  }
  if (percentage > 100 && !rules.oversubscribed)
    faults.push_back({Constraint::percentage_sum, -1, 100, percentage});
  if (rules.memory.value > 0 && memory > rules.memory)
    faults.push_back({Constraint::memory_sum, -1, rules.memory.value, memory.value});
  return faults;
}

std::string to_string(const ShareFault& fault) {
  switch (fault.constraint) {
    case Constraint::clients:
      return fmt::format("{} clients, an MPS server takes at most {}", fault.need, fault.have);
    case Constraint::percentage:
      return fmt::format(
          "client {} asks for {} % of the threads, it must be above 0 and at most 100",
          fault.client, fault.need);
    case Constraint::memory:
      return fmt::format("client {} asks for {} MiB, which is no amount of memory", fault.client,
                         fault.need);
    case Constraint::percentage_sum:
      return fmt::format("the clients ask for {} % of the threads together, there are {} %",
                         fault.need, fault.have);
    case Constraint::memory_sum:
      return fmt::format("the clients may allocate {} MiB together, the device has {} MiB",
                         fault.need, fault.have);
  }
  CHECK(false);
}

}  // namespace partita::drivers::mps
