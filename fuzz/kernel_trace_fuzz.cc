// Traces of vendors' profilers: kernels in order, or a refusal that names the file. The first byte
// says which kind it is.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profile/kernel_profile.h"
#include "profile/nsys/nsys_export.h"
#include "target.h"

FUZZ_TARGET(kernel_trace) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto trace = data[0] == 'n' ? partita::profile::parse_nsys_export("fuzz", text)
                                    : partita::profile::parse_rocprof("fuzz", text);
  if (!trace) {
    CHECK(trace.error().context.starts_with("fuzz"));
    return 0;
  }
  double last = 0;
  for (const auto& kernel : *trace) {
    CHECK(kernel.us >= 0 && (&kernel == &trace->front() || kernel.begin_us >= last));
    last = kernel.begin_us;
  }
  const auto csv = partita::profile::traced_request_csv("fuzz", *trace, 4);
  if (csv) static_cast<void>(partita::profile::parse_kernel_csv("fuzz.csv", *csv, 4));
  return 0;
}
