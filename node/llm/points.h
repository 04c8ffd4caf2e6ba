// Measured points of engines that serve language models: time to the first token (TTFT) and time
// per token after it (TPOT), by tokens in and out and by requests in flight. Read from CSV, one row
// per point; points of one configuration (the same engine, model, precision and split over GPUs)
// belong together. Means of a loop, and percentiles where they were written down. Limits: those of
// Csv, and the ranges in points.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace partita::llm {

// What serves: equal ones are measured together. Numbers that a source does not say are missing.
struct Configuration {
  std::string system, backend, version, model, precision;
  std::string profile = {};                                   // MIG profile; empty: whole GPUs
  std::optional<int> tensor, pipeline;                        // GPUs that share a layer; stages
  std::optional<int> attention_data, expert_tensor, experts;  // of mixtures of experts
  std::optional<int> step_tokens, kv_tokens;  // budget of a step, KV cache, as the engine is told
  std::optional<int> kv_move_ns;  // a token's cache from engine to engine: prefill may be apart
  std::optional<int> units;  // SMs of the GPU that it has; missing: all
  // Of the whole model, on however many GPUs: its weights, and KV cache of a token in bytes.
  std::optional<int> weights_mib, kv_token_bytes;
  auto operator<=>(const Configuration&) const = default;
};
std::string to_string(const Configuration& configuration);

struct Shape {
  int tokens_in = 0, tokens_out = 0;
  auto operator<=>(const Shape&) const = default;
};

// Over the requests of a point; none: not said. Ascending where they are.
struct Percentiles {
  std::optional<Millis> p50 = {}, p90 = {}, p99 = {};
  bool operator==(const Percentiles&) const = default;
};
inline constexpr std::optional<Millis> Percentiles::*kPercentiles[] = {
    &Percentiles::p50, &Percentiles::p90, &Percentiles::p99};
inline constexpr double kPercents[] = {50, 90, 99};

struct Point {
  Shape shape;
  double concurrency = 0;  // requests in flight, those that wait in the engine included
  Millis ttft, tpot;       // means
  Percentiles ttft_at = {}, tpot_at = {};
  // Of single gaps between tokens (ITL), the mean too.
  std::optional<Millis> itl = {};
  Percentiles itl_at = {};
  // Of an open loop: Poisson arrivals at that rate; concurrency is the mean then. Laws and engines
  // are learned from closed loops alone, and held against these.
  std::optional<Rps> rate = {};
  bool operator==(const Point&) const = default;
};

// Why such percentiles cannot be; "": they can.
std::string fault_of(const Percentiles& percentiles);

// The points of one configuration, in the order of the file.
struct Measured {
  Configuration configuration;
  std::vector<Point> points;
  bool operator==(const Measured&) const = default;

  int shapes() const;  // how many different ones
};

std::vector<Point> closed_loops(const std::vector<Point>& points);
std::vector<Measured> closed_loops(const std::vector<Measured>& all);

// By configuration, those in the order in which they come first. Refused with FILE:LINE.
Result<std::vector<Measured>> parse_points(const std::string& file, std::string_view text);
// The text that parse_points reads back as the same.
std::string points_csv(const std::vector<Measured>& all);

}  // namespace partita::llm
