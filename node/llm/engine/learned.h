// Constants of an engine from measured points. In a closed loop who computes what in which step
// does not depend on how long steps take, so mean TTFT and TPOT are sums of the constants, each
// times what a simulation says of it alone; least squares of relative errors, none below 0,
// outliers weighed down. Each loop is simulated with ten requests per one in flight, lengths
// uniform in 80 to 100 % of the shape's, as the published points were measured.
#pragma once

#include <vector>

#include "llm/engine/engine.h"
#include "llm/points.h"

namespace partita::llm {

struct LearnedEngine {
  EngineSpec spec;
  Millis request = {};      // of a TTFT, outside of steps: tokenisation, network
  double prompt_token = 0;  // the same per token of the prompt
};

// Of a spec whose costs are ignored. Refused: fewer than six points, a concurrency above the
// limit's, points that the spec cannot serve.
inline constexpr std::size_t kLeastEnginePoints = 6;
inline constexpr int kMostInFlight = 4096;
Result<LearnedEngine> learn_engine(const std::vector<Point>& points, const EngineSpec& spec);

// The requests of such a loop, in order; whoever measures sends them.
std::vector<Request> loop_requests(const Shape& shape, int in_flight);

// What each of them sees, and the means.
struct LoopTimes {
  Millis ttft = {}, tpot = {};
};
Result<std::vector<LoopTimes>> loop_times(const LearnedEngine& engine, const Shape& shape,
                                          int in_flight);
Result<LoopTimes> closed_loop(const LearnedEngine& engine, const Shape& shape, int in_flight);

}  // namespace partita::llm
