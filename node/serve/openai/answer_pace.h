// AnswerPace: when the tokens of a streamed answer came, of each of its choices. Times are
// nanoseconds. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "serve/openai/token_metrics.h"

namespace partita::serve {

class AnswerPace {
 public:
  explicit AnswerPace(int choices) : choices_(static_cast<std::size_t>(choices)) {}
  void restart();  // nothing has come
  // An event with a token of this choice is there; -1: of all.
  void add(int choice);
  // How many such events there are since came() was told last.
  int fresh() const { return fresh_; }
  // They came now; gaps between tokens go into `gaps`.
  void came(std::int64_t now, SecondsHistogram& gaps);
  std::int64_t events() const { return events_; }
  std::int64_t first() const { return first_; }  // 0: none came
  // Of the slowest choice, for an answer of so many tokens; 0: there was no second one. An event
  // may hold more than one token: those that there are beyond events are shared out by events.
  std::int64_t tpot(std::int64_t tokens) const;

 private:
  struct Choice {
    std::int64_t first = 0, last = 0, events = 0;
    int fresh = 0;
  };
  std::vector<Choice> choices_;
  std::int64_t first_ = 0, events_ = 0;
  int fresh_ = 0;
};

}  // namespace partita::serve
