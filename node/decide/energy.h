// Energy: component models fitted and asked, and telemetry logs told apart by tenant, from files.
// Refusals name flag or FILE:LINE.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "model/energy/energy_forms.h"
#include "model/energy/fit.h"
#include "model/energy/report.h"
#include "hw/telemetry/log.h"

namespace partita::decide {

struct LoadedTelemetry {
  telemetry::Log log;
  std::string note;  // what of the file is left out; empty: nothing
};
// JSON lines, or what DCGM's exporter or `dcgmi dmon` (every second) wrote.
Result<LoadedTelemetry> load_telemetry(Files& files, const std::string& flag,
                                       const std::string& path);
Result<energy::EnergyModel> load_energy_model(Files& files, const std::string& flag,
                                              const std::string& path);

// ---- the component model

struct CounterNames {
  std::string counters;   // CSV; or else
  std::string telemetry;  // a log, of which every `window` is a row
  Seconds window{10};
  std::string components;  // file of columns by component; empty: a column is a component
  std::string measured;    // column; empty: energy_j or power_w
  double idle_w = 0;
};
Result<energy::CounterTable> load_counters(Files& files, const CounterNames& names);

struct FitNames {
  energy::FitOptions options;
  std::string prior;  // an EnergyModel, or a number for all components; empty: none
};
Result<energy::FitOptions> fit_options(Files& files, const FitNames& names);

Result<energy::EnergyModel> fit_energy(Files& files, const CounterNames& counters,
                                       const FitNames& names);
// Leave-one-out; with a model its errors on these rows, which are then its components'.
Result<energy::Validation> validate_energy(Files& files, const CounterNames& counters,
                                           const FitNames& names, const std::string& model);
Result<energy::Prediction> predict_energy(Files& files, const std::string& model,
                                          const std::string& counters);

// ---- attribution

struct EnergyQuestion {
  std::string telemetry;  // a log
  std::string plan;       // ServingPlan, BatchSchedule or Assignment; empty: instances are tenants
  std::string state;      // NodeState: which instance lies where; may be empty
  std::string model;      // EnergyModel; may be empty
  std::vector<std::string> requests;      // CSV; or metrics of the gateway, before and after
  std::optional<energy::SplitRule> rule;  // else by model where there is one, by activity else
  energy::IdlePolicy idle = energy::IdlePolicy::slice;
  std::optional<double> idle_w;
  std::optional<Seconds> batch_start, longest_gap;
  std::map<std::string, std::string> owners;  // tenant by service
  bool compare = false;
  std::optional<double> co2_g_per_kwh, price_per_kwh;
};
Result<energy::EnergyReport> attribute_energy(Files& files, const EnergyQuestion& question);
// The same of a log that is at hand; question.telemetry is what refusals call it.
Result<energy::EnergyReport> attribute_energy(Files& files, const telemetry::Log& log,
                                              const EnergyQuestion& question);

// Completed requests by service, of a CSV `service,requests[,from_s,to_s]` (times on the log's
// clock; what lies outside the log is left out in proportion), or of the gateway's metrics text.
Result<std::map<std::string, double>> parse_requests(const std::string& file, std::string_view text,
                                                     Seconds from, Seconds to);

}  // namespace partita::decide
