// The document of a study of thermal caps: kind DtmReport.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"

namespace partita::dtm {

struct StatedClockShare {
  double mhz = 0, share = 0;
  bool operator==(const StatedClockShare&) const = default;
};
struct StatedTenantHeat {
  std::string name;
  double energy_j = 0, throttle_share = 0;
  bool operator==(const StatedTenantHeat&) const = default;
};
struct StatedDtmRun {
  std::string workload, governor;
  double percent = 0, cap_c = 0;
  bool can_be_met = false;  // at the lowest clock it is not hotter
  double slowdown = 0, seconds = 0, energy_j = 0, energy_ratio = 0;
  double over_cap_s = 0, worst_over_k = 0, max_c = 0, mean_c = 0;
  bool finished = true;
  std::vector<StatedClockShare> clocks;  // only those that were used
  std::vector<StatedTenantHeat> tenants;
  bool operator==(const StatedDtmRun&) const = default;
};
struct StatedHotWork {
  std::string name;
  double memory_share = 0, seconds = 0, energy_j = 0, max_c = 0;
  double lowest_c = 0;  // settled at the lowest clock
  bool operator==(const StatedHotWork&) const = default;
};
struct StatedDtm {
  std::string caps_of;  // rise or celsius
  double ambient_c = 0, idle_c = 0, epoch_ms = 0, epochs_per_second = 0;
  int blocks = 0, states = 0;
  long epochs = 0;
  std::vector<StatedHotWork> workloads;
  std::vector<StatedDtmRun> runs;
  bool operator==(const StatedDtm&) const = default;
};

std::string dtm_json(const StatedDtm& study);
Result<StatedDtm> parse_dtm(const std::string& file, std::string_view text);
DocumentKind dtm_kind();

}  // namespace partita::dtm
