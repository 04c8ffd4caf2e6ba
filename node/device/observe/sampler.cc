#include "device/observe/sampler.h"

namespace partita::observe {

Result<telemetry::Sample> take_sample(device::NodeDriver& driver, Seconds at) {
  const auto info = TRY(driver.info());
  telemetry::Sample sample{.at = at, .gpus = {}};
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    auto one = driver.telemetry(gpu);
    if (!one && one.error().code == ErrorCode::lost) continue;
    if (!one) return failed(one.error());
    sample.gpus.push_back(*std::move(one));
  }
  return sample;
}

}  // namespace partita::observe
