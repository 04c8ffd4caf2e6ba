#include "serve/worker/sequence_states.h"

#include <algorithm>

namespace partita::serve {

SequenceStates::Kept& SequenceStates::make(std::uint64_t sequence) {
  if (kept_.size() >= kMostStates && !kept_.contains(sequence))
    kept_.erase(
        std::ranges::min_element(kept_, {}, [](const auto& one) { return one.second.used; }));
  Kept& kept = kept_[sequence];
  kept.used = ++steps_;
  return kept;
}

SequenceStates::Kept* SequenceStates::begin(const SlotStep& step) {
  const auto found = kept_.find(step.sequence);
  if (found != kept_.end() && !found->second.next.empty()) return nullptr;
  if (!step.begins && found == kept_.end()) return nullptr;
  Kept& kept = step.begins ? make(step.sequence) : found->second;
  if (step.begins) kept.now.assign(bytes_, 0);
  kept.next.resize(bytes_);
  return &kept;
}

void SequenceStates::settle(const SlotStep& step, bool well) {
  const auto found = kept_.find(step.sequence);
  if (found == kept_.end() || found->second.next.empty()) return;
  if (well) std::swap(found->second.now, found->second.next);
  found->second.next.clear();
  found->second.used = ++steps_;
  if (step.ends) kept_.erase(found);
}

StatePart SequenceStates::part(const FetchState& asked) const {
  const auto found = kept_.find(asked.sequence);
  StatePart part{.sequence = asked.sequence, .offset = asked.offset};
  if (found == kept_.end()) return part;
  const std::vector<char>& state = found->second.now;
  part.total = state.size();
  const std::size_t from = std::min<std::size_t>(asked.offset, state.size());
  const std::size_t size = std::min(state.size() - from, kMaxPartBytes);
  part.offset = from;
  part.bytes.assign(state.data() + from, size);
  return part;
}

FetchState SequenceStates::take(const StatePart& part) {
  const FetchState next{.sequence = part.sequence, .offset = part.offset + part.bytes.size()};
  if (part.total != bytes_)
    return next;  // of another model: its steps will say that it is not here
  std::vector<char>& coming = coming_[part.sequence];
  if (part.offset == 0) coming.clear();
  if (part.offset != coming.size()) return {.sequence = part.sequence, .offset = coming.size()};
  coming.insert(coming.end(), part.bytes.begin(), part.bytes.end());
  if (coming.size() == bytes_) {
    make(part.sequence).now = std::move(coming);
    coming_.erase(part.sequence);
  }
  return next;
}

void SequenceStates::forget(std::uint64_t sequence) {
  kept_.erase(sequence);
  coming_.erase(sequence);
}

}  // namespace partita::serve
