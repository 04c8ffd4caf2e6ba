// Show: the snapshot after a step, from what the brains of the loop say. Internal to control.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/bills.h"
#include "control/changes.h"
#include "control/energy_meter.h"
#include "control/host_meter.h"
#include "control/node_view.h"
#include "control/plan_memo.h"
#include "control/rates.h"
#include "control/report.h"
#include "control/seen.h"
#include "control/snapshot.h"

namespace partita::control {

// What there is to show. Values that outlive the call.
struct ShowGround {
  std::int64_t now_ms = 0;
  const World& world;
  const AgentMemory& memory;
  const NodeView& node;
  const std::vector<plan::Service>& services;
  const std::vector<ServiceVerdict>& verdicts;  // of the services, in their order
  const std::vector<RateNow>& rates;            // the same
  const std::map<std::string, Draw>& draws;
  const HostMeter& host_parts;
  const std::optional<HostNow>& host;
  const std::map<std::string, plan::EnergyBill>& bills;
  const std::optional<telemetry::Sample>& sample;
  const std::vector<actuate::WorkerRecord>& workers;
  const std::optional<Changes::Under>& under;
  const std::optional<ChangeNow>&proposed, &last;
  const PlanMemo& memo;
  const Report& report;
  bool rerated = false;  // only what is promised is to change
  BatchNow batch = {};
  std::optional<PowerNow> power = {};
  long restarts = 0, given_up = 0, changes = 0;
  std::vector<actuate::Uncarried> uncarried = {};
  bool fleet_heard = true;  // what its fleet plans is known, or it is one of none
};

// Brings a snapshot up to date; its version grows when anything but times has changed.
void show(Snapshot& snapshot, const ShowGround& ground);

// What is kept of a minute that has ended.
std::vector<history::Measured> measured(const ShowGround& ground);

}  // namespace partita::control
