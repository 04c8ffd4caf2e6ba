// How the clients (processes) of one MPS daemon share its device: a thread percentage and a memory
// limit each, equal or not. NVIDIA's side takes any numbers and then oversubscribes in silence, so
// they are checked here. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace partita::drivers::mps {

// More clients than this are refused by the MPS server (Volta to Hopper).
inline constexpr int kMaxClients = 48;

struct Share {
  double percentage = 100;  // of the device's threads, in (0, 100]
  Mib pinned_memory;        // the most a client may allocate on the device; 0: no limit
  bool operator==(const Share&) const = default;
};

// Equal parts of all threads and, when `memory` is known (not 0), of the memory; whole percents and
// MiB, rounded down. `clients` in 1 .. kMaxClients.
std::vector<Share> equal_shares(int clients, Mib memory);

// What is wrong with a set of shares, as data.
struct ShareFault {
  enum class Constraint { clients, percentage, memory, percentage_sum, memory_sum };
  Constraint constraint = Constraint::clients;
  int client = -1;  // which share; -1: all together
  double have = 0;  // clients, percents or MiB
  double need = 0;  // what was asked for
  bool operator==(const ShareFault&) const = default;
};

struct ShareRules {
  Mib memory = {};              // of the device; 0: unknown, sums of memory go unchecked
  bool oversubscribed = false;  // percentages may add up to more than 100
};

// Every rule that the shares break; empty when they may be used.
std::vector<ShareFault> check_shares(const std::vector<Share>& shares, const ShareRules& rules);

// "client 2 asks for 120 % of the threads, it must be above 0 and at most 100"
std::string to_string(const ShareFault& fault);

}  // namespace partita::drivers::mps
