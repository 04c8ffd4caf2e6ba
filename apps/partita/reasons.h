// Refusals as every command says them: as text on standard error, as JSON on standard output.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "plan/reason.h"

namespace partita::cli {

// Says that there is no such thing ("plan"), or that none was found, and why. -o names the place of
// the thing; a refusal is never written there.
Result<Exit> refuse(Context& context, const Output& output, const std::string& thing,
                    const std::vector<plan::Reason>& reasons);

// The verdict on FILE: `ok`, a line, or the violations; exit 1 with them.
Result<Exit> say_verdict(Context& context, const Output& output, const std::string& file,
                         const std::string& ok, const std::vector<plan::Reason>& violations);

}  // namespace partita::cli
