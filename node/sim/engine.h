// A deterministic discrete-event engine: EventQueue hands out events by time, then by the order in
// which they were pushed; EventLog is a running hash over what happened. The worlds give meaning to
// `kind`, `subject` and `count`; every random draw of a world comes from one Rng stream per
// component (component_rng), so that adding a component never shifts another's numbers.
// Times are integer nanoseconds from the start of the simulation. Single-threaded.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "plan/dispatcher.h"

namespace partita::sim {

using plan::kForever;
using plan::Nanos;

inline constexpr double kNanosPerSecond = 1e9;
inline constexpr double kNanosPerMilli = 1e6;

struct Event {
  Nanos time = 0;
  std::uint64_t sequence = 0;  // order of pushing; decides between events of one time
  std::uint32_t kind = 0;
  std::uint32_t subject = 0;
  std::int64_t count = 0;
  bool operator==(const Event&) const = default;
};

inline bool earlier(const Event& a, const Event& b) {
  return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
}

// Pending events: a 4-ary heap. The order is total, so nothing depends on the heap's shape.
class EventQueue {
 public:
  // `event.sequence` is assigned here.
  void push(Event event);
  // The same in two steps, for what the caller keeps itself: the event as it would be pushed, and
  // whether it is due before all that are here.
  Event numbered(Event event) {
    event.sequence = pushed_++;
    return event;
  }
  bool before_all(const Event& event) const {
    return heap_.empty() || earlier(event, heap_.front());
  }
  bool empty() const { return heap_.empty(); }
  // The earliest event; the queue must not be empty.
  Event pop();
  // As new: no events, sequence numbers from 0; memory is kept.
  void clear();

 private:
  std::vector<Event> heap_;
  std::uint64_t pushed_ = 0;
};

// Order-sensitive 64-bit hash of everything recorded.
class EventLog {
 public:
  void record(Nanos time, std::uint32_t kind, std::uint32_t subject, std::int64_t count) {
    absorb(static_cast<std::uint64_t>(time));
    absorb(static_cast<std::uint64_t>(count) ^ (std::uint64_t{subject} << 24) ^
           (std::uint64_t{kind} << 60));
  }
  void absorb(std::uint64_t word) {
    hash_ = (hash_ ^ word) * kGolden64;
    hash_ ^= hash_ >> 32;
  }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x243f6a8885a308d3ULL;
};

// The random stream of the component of that name under a seed, wherever it stands.
Rng component_rng(std::uint64_t seed, std::string_view name);

}  // namespace partita::sim
