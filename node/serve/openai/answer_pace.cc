#include "serve/openai/answer_pace.h"

#include <algorithm>
#include <utility>

namespace partita::serve {

void AnswerPace::restart() {
  std::ranges::fill(choices_, Choice{});
  first_ = events_ = fresh_ = 0;
}

void AnswerPace::add(int choice) {
  ++events_;
  ++fresh_;
  if (choice < 0)
    for (Choice& each : choices_) ++each.fresh;
  else  // one that was not asked for counts as one of them
    ++choices_[static_cast<std::size_t>(choice) % choices_.size()].fresh;
}

void AnswerPace::came(std::int64_t now, SecondsHistogram& gaps) {
  fresh_ = 0;
  if (first_ == 0) first_ = now;
  for (Choice& choice : choices_) {
    const int count = std::exchange(choice.fresh, 0);
    if (count == 0) continue;
    if (choice.events == 0) {
      choice.first = now;
      gaps.add(0, count - 1);
    } else {
      gaps.add((now - choice.last) / count, count);
    }
    choice.last = now;
    choice.events += count;
  }
}

std::int64_t AnswerPace::tpot(std::int64_t tokens) const {
  std::int64_t events = 0, slowest = 0;
  for (const Choice& choice : choices_) events += choice.events;
  tokens = std::max(tokens, events);
  for (const Choice& choice : choices_) {
    const std::int64_t out = choice.events == 0 ? 0 : tokens * choice.events / events;
    if (out > 1) slowest = std::max(slowest, (choice.last - choice.first) / (out - 1));
  }
  return slowest;
}

}  // namespace partita::serve
