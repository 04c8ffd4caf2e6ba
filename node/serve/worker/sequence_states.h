// The states that a worker keeps of sequences: each so many bytes, zeros when it begins. A batch
// has one step of a sequence at most; what comes of it counts once the step went well. Another
// worker goes on with one by reading it here, part by part, and taking it there. Single-threaded.
// Limit: kMostStates, beyond which the one used longest ago goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "serve/wire/frames.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

inline constexpr std::size_t kMostStates = 65'536 + 1;

class SequenceStates {
 public:
  explicit SequenceStates(std::size_t bytes = 0) : bytes_(bytes) {}

  struct Kept {
    std::vector<char> now = {}, next = {};  // before the step that runs, and after it
    std::uint64_t used = 0;
  };
  // For a step of the batch that is about to run: `now` is there, and `next` is to be written.
  // Null: the state is not here, or the batch has a step of this sequence already.
  Kept* begin(const SlotStep& step);
  // Of a step that begin() let in.
  const Kept& at(const SlotStep& step) const { return kept_.at(step.sequence); }
  Kept& at(const SlotStep& step) { return kept_.at(step.sequence); }
  // After the run. A step that did not go well leaves the state as it was.
  void settle(const SlotStep& step, bool well);
  std::size_t size() const { return kept_.size(); }

  // ---- moves
  // From this offset on, as much as a frame takes; of a sequence that is not here nothing of 0.
  StatePart part(const FetchState& asked) const;
  // What is wanted next; of the last part, what is behind the end.
  FetchState take(const StatePart& part);
  void forget(std::uint64_t sequence);

 private:
  Kept& make(std::uint64_t sequence);

  std::size_t bytes_;
  std::uint64_t steps_ = 0;
  std::map<std::uint64_t, Kept> kept_;
  std::map<std::uint64_t, std::vector<char>> coming_;
};

}  // namespace partita::serve
