#include "planners/power/modelled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace partita::power {
namespace {

// At one clock, relative to the highest.
struct ClockFactors {
  double slower = 1;  // time of what the clock drives
  double unit_idle = 1;
  double energy = 1;  // of what the clock drives
};

ClockFactors factors_of(const ClockModel& model, Mhz clock) {
  const Mhz low = model.clocks.front(), high = model.clocks.back();
  const double span = high.value - low.value;
  const double along = span > 0 ? (clock.value - low.value) / span : 1;
  const double volts =
      (model.low_volts + (model.high_volts - model.low_volts) * along) / model.high_volts;
  const double ratio = clock / high;
  return {1 / ratio, model.leak * volts + (1 - model.leak) * ratio * volts * volts,
          (1 - model.memory_share) * volts * volts + model.memory_share};
}

// On so many units, which need not be whole: linear in 1 / units between whole numbers.
double time_on(const profile::KernelProfile& kernel, double units) {
  if (units <= 1) return kernel.on(1) / units;
  const int below = static_cast<int>(std::floor(units));
  if (below >= static_cast<int>(kernel.time_us.size())) return kernel.time_us.back();
  const int above = below + 1;
  const double share = (1.0 / below - 1.0 / units) / (1.0 / below - 1.0 / above);
  return kernel.on(below) + share * (kernel.on(above) - kernel.on(below));
}

double batch_us(const profile::ModelKernels& model, double units, const ClockModel& clock,
                const ClockFactors& at) {
  const double slower = clock.memory_share + (1 - clock.memory_share) * at.slower;
  double total = 0;
  for (const profile::KernelProfile& kernel : model.kernels) {
    const double time = time_on(kernel, units);
    const double floor = std::min(time, clock.floor_us);
    total += floor + (time - floor) * slower;
  }
  return total;
}

// Unit-microseconds of one request at the highest clock.
double work_of(const profile::ModelKernels& model) {
  double work = 0;
  for (const profile::KernelProfile& kernel : model.kernels)
    work += std::min(kernel.on(1), model.units * kernel.on(model.units));
  return work;
}

plan::ModelResponse respond(const profile::ModelKernels& kernels, const ClockModel& model) {
  plan::ModelResponse response{kernels.model, {}};
  const double work = work_of(kernels);
  std::vector<int> sizes;
  for (int units = 1; units < kernels.units; units += model.unit_step) sizes.push_back(units);
  sizes.push_back(kernels.units);
  for (const Mhz clock : model.clocks) {
    const ClockFactors at = factors_of(model, clock);
    const Watts active = model.idle + kernels.units * at.unit_idle * model.unit_idle;
    std::vector<double> best(model.batches.size(), 1e300);  // fewer units are never faster
    for (const int units : sizes)
      for (std::size_t b = 0; b < model.batches.size(); ++b) {
        const int batch = model.batches[b];
        best[b] =
            std::min(best[b], batch_us(kernels, static_cast<double>(units) / batch, model, at));
        const double seconds = best[b] * 1e-6;
        const Watts busy = model.unit_busy * (work * 1e-6 * batch * at.energy / seconds);
        response.points.push_back(
            {clock, units, batch, Millis{best[b] * 1e-3}, Rps{batch / seconds}, active + busy});
      }
  }
  return response;
}

}  // namespace

plan::ResponseTable modelled_table(const std::string& gpu, const std::vector<int>& units_in,
                                   const std::vector<profile::ModelKernels>& models,
                                   const ClockModel& model) {
  plan::ResponseTable table;
  table.gpu = gpu;
  table.units_in = units_in;
  table.idle = model.idle;
  table.modelled = true;
  table.source = fmt::format(
      "modelled from published kernel times: memory share {:g}, floor {:g} us, {:g} W + {:g} W per "
      "idle unit, {:g} W more per busy one, {:g} to {:g} V",
      model.memory_share, model.floor_us, model.idle.value, model.unit_idle.value,
      model.unit_busy.value, model.low_volts, model.high_volts);
  for (const Mhz clock : model.clocks)
    table.clocks.push_back(
        {clock, model.idle + table.units() * factors_of(model, clock).unit_idle * model.unit_idle});
  for (const profile::ModelKernels& kernels : models)
    table.models.push_back(respond(kernels, model));
  std::ranges::sort(table.models, {}, &plan::ModelResponse::model);
  return table;
}

}  // namespace partita::power
