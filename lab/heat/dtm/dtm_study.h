// A study of thermal caps from what people name: a chip and its powers in HotSpot's files, or the
// example; every workload under every cap and governor.
#pragma once

#include <string>
#include <vector>

#include "heat/thermal_inputs.h"
#include "heat/dtm/dtm_forms.h"

namespace partita::dtm {

struct DtmNames {
  thermal::ThermalNames thermal;      // no floorplan: the example
  std::string workload;      // of the example; empty: all
  double idle_watts = 17.4;  // spread over the chip's area
  double idle_clocked = 0.4, memory_share = 0.1;
  double row_s = 0.01, work_s = 0;  // of the trace; 0: one pass
  double epoch_ms = 1;
  std::string caps = "10,20,30,40,50";  // per cent
  bool celsius = false;                 // of degrees Celsius, as the dissertation counts
  std::string governor = "step";        // or pid, predictive, all
  std::vector<std::string> tenants;     // "NAME=PREFIX,PREFIX": blocks whose names begin so
  std::string clocks, volts;            // "131,200,300", "0.65,1.06"; empty: the dissertation's
  double hysteresis_k = 0.5, margin_k = 0, sensor_k = 0, power_error = 0;
};

Result<dtm::StatedDtm> dtm_study(Files& files, const DtmNames& names);
// One run as a picture (SVG): temperature and cap, clock, and by whom the hottest block was heated,
// over time. bad_input where the names make several runs.
Result<std::string> dtm_picture(Files& files, const DtmNames& names);

}  // namespace partita::dtm
