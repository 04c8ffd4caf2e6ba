// `partita profile measure` and the forms of other profilers for `profile import`, kept apart from
// the commands that only read profiles.
#pragma once

#include <string>
#include <vector>

#include "context.h"

namespace partita::cli {

// Adds the subcommand `measure` to `profile`.
Command add_profile_measure(CLI::App& profile);

// `partita profile measure --openai`: an engine of a language model measured from outside, in
// closed loops as the law of engines takes them (llm/engine/learned.h), in open ones, and how many
// tokens of KV cache fit.

struct EngineMeasureFlags {
  std::string url, name, output, against;
  bool kv_probe = false;
  std::string rates;  // of open loops; empty: none
  std::string kv_time = "10m";
  std::string shapes = "256/64,1024/64,256/256,1024/256", in_flight = "1,4,16,64";
  std::vector<std::string> told;
};

// Shapes at the fewest and the most in flight first; then those between, until what comes is as the
// points before it say. Every point is written at once, and what is in the file is not measured
// again. With `against` nothing stops early, and what is predicted stands beside what is measured.
Result<Exit> measure_engine(Context& context, const EngineMeasureFlags& flags);

}  // namespace partita::cli
