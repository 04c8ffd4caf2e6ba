// A bounded memory of answers to questions that are asked again and again: at least the newest half
// of `most` answers is kept. A value; no locking.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace partita {

template <class Question, class Answer>
class Recalled {
 public:
  explicit Recalled(std::size_t most) : half_(most / 2 + 1) {}

  // Null where it is not known. Valid until the next call.
  const Answer* find(const Question& question) {
    if (const auto found = young_.find(question); found != young_.end()) return &found->second;
    const auto found = old_.find(question);
    if (found == old_.end()) return nullptr;
    Answer answer = std::move(found->second);
    old_.erase(found);
    return &keep(question, std::move(answer));
  }
  // Valid until the next call.
  const Answer& keep(Question question, Answer answer) {
    if (young_.size() >= half_) old_ = std::exchange(young_, {});
    return young_.insert_or_assign(std::move(question), std::move(answer)).first->second;
  }
  std::size_t size() const { return young_.size() + old_.size(); }

 private:
  std::size_t half_;
  std::map<Question, Answer> young_, old_;  // asked for since the last turn, and before it
};

}  // namespace partita
