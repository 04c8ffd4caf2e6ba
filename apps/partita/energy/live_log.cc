#include "energy/live_log.h"

#include <algorithm>

#include "device/observe/sampler.h"
#include "stop_request.h"

namespace partita::cli {

Result<telemetry::Log> take_log(Context& context, const DeviceFlags& device, Seconds duration,
                                Seconds interval) {
  const Result<OpenDriver> opened = open_driver(context, device);
  if (!opened) return failed(opened.error());
  const auto interval_ns = static_cast<std::int64_t>(interval.value * 1e9);
  StopRequest stop;
  if (const auto first = observe::take_sample(*opened->driver, Seconds{0}); !first)
    return failed(first.error());
  telemetry::Log log;
  std::int64_t due = context.clock.now_ns() + interval_ns, start = 0;
  for (;;) {
    if (stop.within(std::max<std::int64_t>(0, due - context.clock.now_ns()))) break;
    const std::int64_t now = context.clock.now_ns();
    if (log.empty()) start = now;
    const Seconds at{static_cast<double>(now - start) * 1e-9};
    auto sample = observe::take_sample(*opened->driver, at);
    if (!sample) return failed(sample.error());
    log.push_back(*std::move(sample));
    if (at >= duration) break;
    due = std::max(due + interval_ns, now);  // slow readings are not made up for
  }
  return log;
}

}  // namespace partita::cli
