#include "sim/engine.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace partita::sim {
namespace {

constexpr std::size_t kArity = 4;

}  // namespace

void EventQueue::push(Event event) {
  event.sequence = pushed_++;
  std::size_t hole = heap_.size();
  heap_.emplace_back();
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kArity;
    if (!earlier(event, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

Event EventQueue::pop() {
  CHECK(!heap_.empty());
  const Event first = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  if (heap_.empty()) return first;
  std::size_t hole = 0;
  while (true) {
    const std::size_t begin = hole * kArity + 1;
    if (begin >= heap_.size()) break;
    const std::size_t end = std::min(begin + kArity, heap_.size());
    std::size_t least = begin;
    for (std::size_t child = begin + 1; child < end; ++child) {
      if (earlier(heap_[child], heap_[least])) least = child;
    }
    if (!earlier(heap_[least], last)) break;
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
  return first;
}

void EventQueue::clear() {
  heap_.clear();
  pushed_ = 0;
}

Rng component_rng(std::uint64_t seed, std::string_view name) {
  return Rng(seed).split(text_hash(name));
}

}  // namespace partita::sim
