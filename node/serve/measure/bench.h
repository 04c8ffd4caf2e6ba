// Bench: the gateway's side of the link towards the workers of one instance that is measured. Every
// worker always has one batch, so what is measured is what a saturated instance does: throughput of
// all together, and the time from RUN to DONE, the hop included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/wire/frames.h"

namespace partita::serve {

struct BenchLimits {
  std::int64_t window_ns = 100'000'000;  // at least; and at least kBatchesPerWindow of each worker
  std::int64_t most_ns = 5'000'000'000;  // of a point
  double precision = 0.02;
};
inline constexpr int kBatchesPerWindow = 5;
// A point that is known no better than this is none (where not even this was asked for).
inline constexpr double kWidestSpread = 0.5;

struct BenchPoint {
  double throughput_rps = 0;
  double latency_ms = 0;  // mean
  double precision = 0;   // half of the interval over the mean of the throughput
};

class Bench {
 public:
  // Listens at `path`.
  static Result<Bench> open(const std::string& path);
  ~Bench();
  Bench(Bench&&) noexcept;
  Bench& operator=(Bench&&) noexcept;

  // Waits until `workers` workers are READY. `alive` is asked often; false ends the wait with
  // ErrorCode::not_found. ErrorCode::timeout after limit_ns.
  Result<void> wait_for(int workers, std::int64_t limit_ns, const std::function<bool()>& alive);
  const ModelSpec& model() const;
  // All workers run batches of this size, back to back. An Error: a worker is gone, or failed a
  // batch. `alive` as above.
  Result<BenchPoint> measure(int batch, const BenchLimits& limits,
                             const std::function<bool()>& alive);
  // Lets the workers go.
  void dismiss();

 private:
  struct State;
  explicit Bench(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace partita::serve
