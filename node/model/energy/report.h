// What attribution comes to, for people and programs: joules per tenant, service, instance, GPU and
// request. Figures are whole microjoules, so that the tenants' and idle_j are measured_j exactly.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/energy/from_telemetry.h"

namespace partita::energy {

struct EnergyReport {
  struct Tenant {
    std::string name;
    double energy_j = 0, mean_w = 0;  // watts over the whole time of the report
    double uncertainty_j = 0;         // standard deviation; 0 where the rule has none
    double idle_share_j = 0;          // of energy_j: what the idle policy put there
    bool known = true;                // else an instance that the plan does not name
    std::vector<std::string> services = {};
    std::optional<double> co2_g = {}, cost = {};
    bool operator==(const Tenant&) const = default;
  };
  struct Service {
    std::string name, tenant;
    double energy_j = 0, mean_w = 0, uncertainty_j = 0;
    std::optional<double> requests = {}, joules_per_request = {};
    bool operator==(const Service&) const = default;
  };
  struct OnInstance {
    int gpu = 0;
    std::string gpu_uuid;
    int gi_id = -1;  // -1: the whole GPU
    std::string device, profile, service, tenant;
    double energy_j = 0, mean_w = 0, present_s = 0;  // watts while it was there
    bool operator==(const OnInstance&) const = default;
  };
  struct OfGpu {
    int index = 0;
    std::string uuid, model;
    double measured_j = 0, idle_j = 0;  // idle_j: of nobody
    double idle_w = 0;
    std::string idle_from;  // given, model, quiet, line, lowest
    double counter_s = 0, power_s = 0, unmeasured_s = 0, gap_s = 0;
    int resets = 0;
    bool operator==(const OfGpu&) const = default;
  };
  struct Compared {
    struct Part {
      std::string name;
      double energy_j = 0;
      bool operator==(const Part&) const = default;
    };
    std::string rule;
    std::vector<Part> tenants;
    double idle_j = 0;
    bool operator==(const Compared&) const = default;
  };

  double from_s = 0, to_s = 0;
  double measured_j = 0, idle_j = 0;
  std::string rule, idle_policy;
  std::vector<Tenant> tenants;  // by energy, falling
  std::vector<Service> services;
  std::vector<OnInstance> instances;
  std::vector<OfGpu> gpus;
  std::vector<Compared> compared;
  std::vector<std::string> notes;
  bool operator==(const EnergyReport&) const = default;
};

struct ReportOptions {
  SplitRule rule = SplitRule::activity;
  IdlePolicy idle = IdlePolicy::slice;
  bool compare = false;                       // beside it all other rules
  bool has_model = false;                     // the ledger's watts are a model's
  std::map<std::string, std::string> owners;  // tenant by service; others are their own
  std::map<std::string, double> requests;     // completed, by service
  std::optional<double> co2_g_per_kwh, price_per_kwh;
};

// `from` and `to`: the log's first and last sample.
EnergyReport report_of(const TelemetryLedger& ledger, const std::vector<Board>& boards,
                       Seconds from, Seconds to, const ReportOptions& options);

// For people; every table adds up in the digits that it shows.
std::string report_text(const EnergyReport& report);
// For Prometheus, with DCGM's labels: gpu, UUID, modelName, GPU_I_ID, GPU_I_PROFILE.
std::string report_prometheus(const EnergyReport& report);

}  // namespace partita::energy
