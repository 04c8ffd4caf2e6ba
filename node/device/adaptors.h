// Adaptors around any NodeDriver: faults, limits, recording, replay. Each owns nothing but its own
// notes and refers to the driver it wraps, which must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/adapted_driver.h"
#include "device/fault_script.h"
#include "device/recording.h"

namespace partita::device {

// A driver in which calls go wrong after a script.
class FaultyDriver final : public AdaptedDriver {
 public:
  FaultyDriver(NodeDriver& inner, Clock& clock, std::vector<Fault> script,
               std::function<void()> on_death)
      : inner_(inner), script_(clock, std::move(script), std::move(on_death)) {}

 private:
  Result<Answer> on_call(const Call& call, const Make& make) override;

  NodeDriver& inner_;
  FaultScript script_;
};

// A driver with limits: read-only, or only some GPUs (others answer denied to every change).
struct Limits {
  bool read_only = false;
  std::optional<std::vector<int>> gpus;
};
class LimitedDriver final : public AdaptedDriver {
 public:
  LimitedDriver(NodeDriver& inner, Limits limits) : inner_(inner), limits_(std::move(limits)) {}

 private:
  Result<Answer> on_call(const Call& call, const Make& make) override;

  NodeDriver& inner_;
  Limits limits_;
};

// Every call and its answer, in order: the document `kind: Recording` of docs/formats.md. `partita
// capture` records the read-only calls of a real machine, tests replay them.
class RecordingDriver final : public AdaptedDriver {
 public:
  explicit RecordingDriver(NodeDriver& inner) : inner_(inner) {}
  // The recording so far.
  std::string json() const { return recording_json(calls_); }

 private:
  Result<Answer> on_call(const Call& call, const Make& make) override;

  NodeDriver& inner_;
  std::vector<RecordedCall> calls_;
};

// Answers from a recording. Changing calls are answered in recorded order; another one than the
// next is ErrorCode::not_found and changes nothing. A reading call gets the last answer that was
// recorded for its arguments before the next change (the first one after it where there is none
// before); never recorded is not_found. Refused with FILE:LINE.
Result<std::unique_ptr<NodeDriver>> replay(const std::string& file, std::string_view recording);

}  // namespace partita::device
