// Kernels out of `nsys export --type sqlite`: the tables CUPTI_ACTIVITY_KIND_KERNEL and StringIds.
// The file's bytes are opened in memory, read-only. Pure.
#pragma once

#include <string>
#include <string_view>

#include "profile/kernel_trace.h"

namespace partita::profile {

// bad_input where it is no such database, or has no kernels.
Result<KernelTrace> parse_nsys_export(const std::string& file, std::string_view bytes);

}  // namespace partita::profile
