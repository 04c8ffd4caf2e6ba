// Warming up an engine and measuring it: execution time by batch size, on memory of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "serve/wire/frames.h"
#include "serve/worker/engine.h"

namespace partita::serve {

// 1, 2, 4 ... and the largest.
std::vector<int> batch_ladder(int max_batch);

// Runs the largest batch twice, then each batch of the ladder kRunsPerPoint times, fewer where they
// take long. A point's time is the median; times never fall with the batch. `pause` is called
// between runs; false ends it with ErrorCode::timeout. `now_ns`: CLOCK_MONOTONIC.
inline constexpr int kRunsPerPoint = 7;
inline constexpr std::int64_t kTimePerPoint = 250'000'000;  // after it no further run begins
Result<std::vector<CurvePoint>> warm_up(Engine& engine, const std::function<bool()>& pause);

std::int64_t steady_ns();  // CLOCK_MONOTONIC

}  // namespace partita::serve
