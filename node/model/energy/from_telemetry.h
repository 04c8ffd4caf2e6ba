// From a telemetry log to a ledger (attribution.h): which account every instance is, how busy it
// was, what a component model expects it to draw, what the board takes without work. Also the rows
// that a component model is fitted to, from a log of a board.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/energy/attribution.h"
#include "model/energy/fit.h"
#include "model/energy/tenancy.h"
#include "hw/telemetry/joules.h"

namespace partita::energy {

using telemetry::Board;
using telemetry::Interval;
using telemetry::MeterSource;

// Components that telemetry shows, in shares of the most there can be: joules per access are then
// watts of a whole board at full activity. "idle" is what the board takes without work.
std::vector<std::string> telemetry_components();
// Refused at `file`: a model with other components, or of accesses instead of shares of time.
Result<void> check_telemetry_model(const std::string& file, const EnergyModel& model);

struct BoardFacts {
  int compute_slices = 0, memory_slices = 0;
  bool ampere = false;
};

struct LedgerOptions {
  std::optional<EnergyModel> model;  // for SplitRule::model; else watts are slices x activity
  std::optional<Watts> idle;         // of every board; else the model's, else the log's
  std::map<std::string, BoardFacts> facts;  // by GPU model
};

// Where the idle power of a board is from.
enum class IdleSource { given, model, quiet, line, lowest };
const char* to_string(IdleSource source);

struct AccountFacts {
  std::string service;  // what is known of nobody: "gpu 0, gi 7 (1g.10gb)"
  bool known = false;   // the tenancy names it
  int gpu = 0, gi_id = -1;
  std::string gpu_uuid, device, profile;
};

struct TelemetryLedger {
  Ledger ledger;                         // a tenant per service
  std::vector<AccountFacts> accounts;    // as Ledger::accounts
  std::vector<std::string> services;     // as tenants of the ledger
  std::vector<IdleSource> idle_sources;  // per board
  // Why the model cannot be the rule: instances that work and do not tell what it asks for. Empty:
  // it can.
  std::string model_lacks = {};
  std::vector<std::string> notes;
};

TelemetryLedger ledger_of(const telemetry::Log& log, const std::vector<Board>& boards,
                          const Tenancy& tenancy, const LedgerOptions& options);

// Relative standard deviation of the watts that kernels draw per busy slice, where nothing but
// slices and activity is known: of the 25 kernels that AccelWattch measured on Volta
// (data/published/accelwattch), board power above its constant part.
inline constexpr double kActivityError = kKernelsDiffer;

// Rows for fit(): mean watts of a board over at least `length`, and what its instances did. A
// component that no sample tells or uses is left out. Refused: no board with activity and power.
Result<CounterTable> counters_of(const std::string& file, const telemetry::Log& log,
                                 const std::vector<Board>& boards, const LedgerOptions& options,
                                 Seconds length);

}  // namespace partita::energy
