// The calls of a program as published counts, and a player that makes as many through a client's
// session: a cold run (modules, allocations, weights, one inference) and hot inferences. What was
// not published is assumed, and said here: weights go up one by one, each copied on the default
// stream and waited for, as PyTorch's loaders do; an inference is all launches in equal parts
// between the copies back; the kernels take equal shares of the time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/session.h"

namespace partita::remote::shapes {

struct CallShape {
  std::string program;
  std::uint64_t launches = 0, kernels = 0, mallocs = 0, copies_in = 0, copies_out = 0;
  std::uint64_t calls = 0, waits = 0;  // of all API calls, as published; 0: not published
  std::uint64_t bytes_in = 0, bytes_out = 0;
  double hot_ms = 0;  // native; 0: not published
};

// data/published/gpuless/calls.csv and times.csv.
Result<std::vector<CallShape>> parse_shapes(const std::string& calls, const std::string& times);

// A module with so many kernels; each has one parameter, the nanoseconds that it takes.
std::string waiting_kernels(std::uint64_t count);

// Plays one program in one session.
class ShapePlayer {
 public:
  // `scale`: of the bytes, so that counting needs no gigabytes.
  ShapePlayer(client::Session& session, CallShape shape, double scale);
  // Modules, allocations, weights, one inference whose kernels take no time. CUDA's error number.
  client::Status cold();
  // One more inference, after cold(): input up, kernels of all in all `time`, results down.
  client::Status hot(std::chrono::nanoseconds time);

 private:
  client::Status load();
  client::Status send_weights();
  client::Status infer(std::chrono::nanoseconds time);

  client::Session& session_;
  CallShape shape_;
  double scale_;
  std::string image_;
  std::vector<client::Kernel*> kernels_;
  std::vector<std::uint64_t> blocks_;
  std::vector<std::byte> memory_;  // of the host
};

// Blocking round trips of this session so far.
std::uint64_t round_trips(client::Session& session);

}  // namespace partita::remote::shapes
