// The traces that services declare, from the files that they name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/files.h"
#include "base/result.h"
#include "plan/serving.h"

namespace partita::decide {

// The services of the file `services_file` with their traces loaded, each file once; paths are
// relative to that file. A service without a rate gets the mean of its trace. `services_file` is
// empty where a flag names the trace.
Result<std::vector<plan::Service>> with_traces(Files& files, const std::string& services_file,
                                               std::vector<plan::Service> services);

// Lengths of requests, by the name that a services file gives the trace.
using TokenTraces = std::map<std::string, std::shared_ptr<const std::vector<plan::TracedRequest>>>;

// The traces of lengths that a services file of this text names.
Result<TokenTraces> token_traces(Files& files, const std::string& services_file,
                                 const std::string& text);

// Writes lengths into a services file in place of the names of their traces, for those who do not
// have these; of a trace of more than kPartsWritten^2 as many means, each of as many requests: by
// their prompts kPartsWritten parts, each by its answers so many. Whether there are any.
inline constexpr std::size_t kPartsWritten = 32;
Result<bool> write_lengths(Files& files, Document& services);

}  // namespace partita::decide
