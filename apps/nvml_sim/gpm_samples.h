// Samples of the performance monitor that clients hold: what an instance had done at a time. Values
// are kept under the numbers that clients know them by. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "drivers/sim/power_model.h"

namespace partita::nvml_sim {

struct GpmContent {
  int gpu = -1;
  std::int64_t at_ns = -1;  // -1: nothing was sampled yet
  drivers::sim::SimLoad load;
};

class GpmSamples {
 public:
  std::uintptr_t add() {
    const std::lock_guard guard(mutex_);
    contents_[++last_] = {};
    return last_;
  }
  bool remove(std::uintptr_t number) {
    const std::lock_guard guard(mutex_);
    return contents_.erase(number) > 0;
  }
  std::optional<GpmContent> find(std::uintptr_t number) const {
    const std::lock_guard guard(mutex_);
    const auto at = contents_.find(number);
    return at == contents_.end() ? std::nullopt : std::optional(at->second);
  }
  // False when there is no such sample.
  bool put(std::uintptr_t number, const GpmContent& content) {
    const std::lock_guard guard(mutex_);
    const auto at = contents_.find(number);
    if (at == contents_.end()) return false;
    at->second = content;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, GpmContent> contents_;
  std::uintptr_t last_ = 0x4E57'0000'0000;
};

}  // namespace partita::nvml_sim
