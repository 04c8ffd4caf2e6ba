// Readers and writers of workload profiles. All take text; every refusal names FILE:LINE.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "profile/workload_profile.h"

namespace partita::profile {

// Native CSV: header model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib,source,shape
// (columns in any order, the last three optional). A model that was measured with several shapes
// becomes one of each, called as buckets are (buckets.h): "bert~128". Throughput is the total of
// all processes. Rows with throughput and latency both 0 did not run: they are kept as no_runs.
// source: measured (or empty), predicted, or predicted:GPU for the GPU model on which the law was
// learned. Negative, NaN, infinite, fractional counts, duplicates, missing columns, unterminated
// quotes, binary and empty files are bad input, and rows whose columns contradict each other
// (consistency.h).
Result<ProfileTable> parse_native_csv(const std::string& file, std::string_view text);

// One ParvaGPU CSV (header Mig instance,Batch size,Workload Number,Throughput,Latency): throughput
// is per process (req/s), latency is in seconds; rows 0,0 did not run. `model` is the file's name
// without its extension.
Result<WorkloadProfile> parse_parvagpu_csv(const std::string& file, const std::string& model,
                                           std::string_view text);

// The native CSV of a table; parse_native_csv gives the table back exactly.
std::string native_csv(const ProfileTable& table);

}  // namespace partita::profile
