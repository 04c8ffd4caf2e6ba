// The traces that services declare, from the files that they name.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "plan/serving.h"

namespace partita::decide {

// The services of the file `services_file` with their traces loaded, each file once; paths are
// relative to that file. A service without a rate gets the mean of its trace. `services_file` is
// empty where a flag names the trace.
Result<std::vector<plan::Service>> with_traces(Files& files, const std::string& services_file,
                                               std::vector<plan::Service> services);

}  // namespace partita::decide
