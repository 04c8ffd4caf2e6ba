// Constants of an engine from measured points. In a closed loop who computes what in which step
// does not depend on how long steps take, so mean TTFT and TPOT are sums of the constants, each
// times what a simulation says of it alone; least squares of relative errors, none below 0,
// outliers weighed down. Each loop is simulated with ten requests per one in flight, lengths
// uniform in 80 to 100 % of the shape's, as the published points were measured. Constants that few
// engines have (StepCost::mixed, ::crowded) are learned where nine points or more, at three
// concurrencies for the latter, are told clearly better with them.
//
// Points tell a sum of constants where no engine on which it is twice as much could have shown
// them: with the sum held there, and all other constants at will, the squared errors in units of
// usual ones come out larger by kRuledOut (95 %, one-sided).
#pragma once

#include <vector>

#include "llm/engine/engine.h"
#include "llm/points.h"

namespace partita::llm {

struct LearnedEngine {
  EngineSpec spec;
  Millis request = {};      // of a TTFT, outside of steps: tokenisation, network
  double prompt_token = 0;  // the same per token of the prompt
  // Whether the points tell what a prompt as long as theirs costs. Where all of them wait, or all
  // are at one concurrency, prompts may cost anything: such an engine can promise nothing.
  bool prompts_told = true;
};

// Of a spec whose costs are ignored. Where the points do not tell what a step of one sequence
// takes, it is as slow as they allow. Refused: fewer than six points, a concurrency above the
// limit's, points that the spec cannot serve.
inline constexpr std::size_t kLeastEnginePoints = 6;
inline constexpr int kMostInFlight = 4096;
inline constexpr double kRuledOut = 2.71;
Result<LearnedEngine> learn_engine(const std::vector<Point>& points, const EngineSpec& spec);

// The requests of such a loop, in order; whoever measures sends them.
std::vector<Request> loop_requests(const Shape& shape, int in_flight);

// Those of an open loop: Poisson arrivals at that rate, above 0; the same lengths.
inline constexpr int kOpenRequests = 120;
std::vector<Request> open_requests(const Shape& shape, Rps rate);

// What each of them sees, and the means.
struct LoopTimes {
  Millis ttft = {}, tpot = {};
};
Result<std::vector<LoopTimes>> loop_times(const LearnedEngine& engine, const Shape& shape,
                                          int in_flight);
Result<std::vector<LoopTimes>> open_times(const LearnedEngine& engine, const Shape& shape,
                                          Rps rate);
Result<LoopTimes> closed_loop(const LearnedEngine& engine, const Shape& shape, int in_flight);

}  // namespace partita::llm
