// Who took the joules of a board. Power above idle is split in every interval by a rule -- what a
// component model expects of every instance, or something simpler -- so that the parts always add
// up to what was measured; idle power goes by a policy. Everything is added up in whole
// microjoules, so that reports add up exactly too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace partita::energy {

// How much kernels differ in watts that are equally busy on the same slices: a standard deviation.
inline constexpr double kKernelsDiffer = 0.25;

// By what the energy above idle is split: watts that a model expects (drawn up to a fifth of the
// way to activity, as far as the model is unsure); compute slices x activity; compute slices;
// GR_ENGINE_ACTIVE as it is read (what Kepler does); equally.
enum class SplitRule { model, activity, slice, kepler, equal };
// Who bears what the board takes without work: instances by compute slices (those of free slices
// stay unassigned), the tenants that are there equally, or nobody.
enum class IdlePolicy { slice, equal, unassigned };

const char* to_string(SplitRule rule);
const char* to_string(IdlePolicy policy);

// An instance, or a part of one, during an interval.
struct InstanceUse {
  int account = 0;    // whose and where: an index into Ledger::accounts
  double share = 0;   // of the board's compute, in [0, 1]; at most 1 over all uses
  double duty = 0;    // how busy of itself, in [0, 1]
  double engine = 0;  // GR_ENGINE_ACTIVE as read; duty where there is none
  double watts = 0;   // above idle, by a model; at least 0
  double error = 0;   // standard deviation of watts, as a share of them
};

struct BoardInterval {
  double joules = 0;
  Seconds length;
  bool watched = true;  // else nobody knows who did what: all of it stays unassigned
  std::vector<InstanceUse> uses;
  double tempo = 1;  // of the SMs' clock, of the fastest there was
};

struct BoardLedger {
  std::vector<BoardInterval> intervals;
  Watts idle;        // of the board without work
  Watts idle_error;  // its standard deviation
};

// Where a tenant was: an instance of a board.
struct Account {
  int board = 0;  // index into Ledger::boards
  int tenant = 0;
  bool operator==(const Account&) const = default;
};

struct Ledger {
  std::vector<BoardLedger> boards;
  std::vector<Account> accounts;
  int tenants = 0;
};

using Microjoules = std::int64_t;

struct Share {
  Microjoules energy = 0, idle = 0;  // idle: the part of energy that the idle policy put there
  double seconds = 0;                // that it was there
  bool operator==(const Share&) const = default;
};

struct Attribution {
  Microjoules measured = 0;             // == sum of accounts + sum of unassigned
  std::vector<Share> accounts;          // as Ledger::accounts
  std::vector<Microjoules> boards;      // measured, per board
  std::vector<Microjoules> unassigned;  // per board: idle of nobody, and what nobody watched
  std::vector<Microjoules> tenants;     // per tenant
  std::vector<double> tenant_errors;    // joules, standard deviation; 0 for rules without errors
};

Attribution attribute(const Ledger& ledger, SplitRule rule, IdlePolicy idle);

// Whole numbers that add up to `total` and differ from the parts, scaled to it, by less than 1
// each: the largest remainders are rounded up, the first of equal ones. Parts are at least 0; where
// all are 0, the last part gets everything.
std::vector<std::int64_t> apportion(const std::vector<double>& parts, std::int64_t total);

}  // namespace partita::energy
