// The engine of a set of models (plan/model_set.h) that take and give the same: holds so many at
// once, loads the others when they are asked for, and lets go of one for each. Which one:
// GreedyDual (Young, SODA 1991), by how long it took to load, to a power of two, and by when it was
// asked for; where all take about as long that is the one asked for longest ago. One thing at a
// time, so that a model that is loaded is loaded once; the set never holds more, not even while it
// loads.
//
// A model that cannot be loaded fails its own requests alone, and is not tried again for
// kFailedForNs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/worker/engine.h"

namespace partita::serve {

inline constexpr std::int64_t kFailedForNs = 30'000'000'000;

struct SetOptions {
  std::string name;
  std::size_t held = 1;                  // >= 1
  std::vector<std::string> models = {};  // that there are; empty: whatever is asked for
  std::function<Result<EnginePointer>(const std::string& model)> load;
  std::function<std::int64_t()> now_ns;
};

// Takes and gives what the first of its models does that can be loaded; of an empty list the one
// called `name`. An Error: none can be, or it has state.
Result<EnginePointer> set_engine(SetOptions options);

}  // namespace partita::serve
