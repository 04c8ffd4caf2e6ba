#include "control/energy_meter.h"

#include <algorithm>
#include <utility>

#include "model/energy/from_telemetry.h"

namespace partita::control {
namespace {

constexpr double kNewest = 0.1;  // weight of the newest reading of a quiet board
constexpr double kPerMicro = 1e-6;

}  // namespace

void EnergyMeter::see(const telemetry::Sample& sample, const energy::Tenancy& tenancy) {
  if (sample.at <= last_.at) return;
  const telemetry::Log log{std::exchange(last_, sample), sample};
  for (auto& [tenant, draw] : draws_) draw.watts = 0;
  if (log[0].gpus.empty() || (sample.at - log[0].at).value > kLongestS) return;
  const std::vector<telemetry::Board> boards =
      telemetry::measure(log, {.longest = Seconds{kLongestS}});
  energy::TelemetryLedger told = energy::ledger_of(log, boards, tenancy, {});
  for (std::size_t b = 0; b < boards.size(); ++b) {
    energy::BoardLedger& board = told.ledger.boards[b];
    if (board.intervals.empty()) continue;
    Idle& known = idle_.try_emplace(boards[b].uuid, Idle{board.idle}).first->second;
    const bool quiet = told.idle_sources[b] == energy::IdleSource::quiet;
    if (quiet)
      known.watts = known.seen ? known.watts * (1 - kNewest) + board.idle * kNewest : board.idle;
    else if (!known.seen)
      known.watts = std::min(known.watts, board.idle);
    known.seen = known.seen || quiet;
    board.idle = known.watts;
  }
  const energy::Attribution parts =
      energy::attribute(told.ledger, energy::SplitRule::activity, energy::IdlePolicy::slice);
  for (std::size_t a = 0; a < told.accounts.size(); ++a) {
    if (!told.accounts[a].known) continue;
    const auto board = static_cast<std::size_t>(told.ledger.accounts[a].board);
    const double joules = static_cast<double>(parts.accounts[a].energy) * kPerMicro;
    Draw& draw = draws_[told.accounts[a].service];
    draw.joules += joules;
    draw.watts += joules / told.ledger.boards[board].intervals.front().length.value;
  }
}

}  // namespace partita::control
