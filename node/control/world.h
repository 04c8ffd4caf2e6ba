// World: what does not change while an agent runs. A value.
#pragma once

#include <string>
#include <vector>

#include "control/nvlinks.h"
#include "control/settings.h"
#include "decide/traces.h"
#include "hw/catalogue.h"
#include "plan/power.h"
#include "plan/serving.h"
#include "plan/tariff.h"

namespace partita::control {

struct World {
  std::string node;  // host name
  Settings settings;
  hw::Catalogue catalogue;
  // What was measured, by GPU model; count and price are not looked at. A GPU whose model is not
  // among them is not used.
  std::vector<plan::FleetEntry> profiles;
  plan::SloRule rule;
  int max_processes = plan::kDefaultMaxProcesses;
  // For policy.power.clocks: slo, by GPU model; units are compute slices.
  std::vector<plan::ResponseTable> power_tables = {};
  plan::Tariff tariff = {};  // of energy, by the hour; empty: not known
  decide::TokenTraces token_traces = {};  // that services files may name
  std::string services_file = "services";  // what errors call it
  NvLinks nvlink = {};

  // Null: its GPUs are not used.
  const plan::FleetEntry* entry_of(const std::string& model) const {
    for (const plan::FleetEntry& entry : profiles)
      if (entry.gpu.name == model) return &entry;
    return nullptr;
  }
};

}  // namespace partita::control
