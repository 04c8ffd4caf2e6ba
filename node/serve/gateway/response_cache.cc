#include "serve/gateway/response_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace partita::serve {
namespace {

constexpr std::uint8_t kMostCounted = 15;
constexpr std::size_t kLeastWidth = 256, kMostWidth = 1u << 18, kBytesPerCount = 1024;
constexpr std::size_t kWindowPart = 100;  // 1 % of the bytes, as in the paper
constexpr double kKeptPart = 0.8;         // of what is not the window
constexpr long kSample = 10;              // times the answers there are, before counts are halved
constexpr std::size_t kFewAnswers = 64;   // of the sketch's width: as many are reckoned with

std::size_t width_for(std::size_t bytes) {
  return std::bit_floor(std::clamp(bytes / kBytesPerCount, kLeastWidth, kMostWidth));
}

}  // namespace

FrequencySketch::FrequencySketch(std::size_t width) : mask_(width - 1), counts_(kRows * width) {}

std::size_t FrequencySketch::place(const CacheKey& key, int row) const {
  const auto number = static_cast<std::uint64_t>(row);
  return (number * (mask_ + 1)) + ((key[0] + number * (key[1] | 1)) >> 7 & mask_);
}

// The least of its numbers alone: what others have added to the larger ones is theirs.
void FrequencySketch::add(const CacheKey& key) {
  const int now = of(key);
  if (now == kMostCounted) return;
  for (int row = 0; row < kRows; ++row) {
    std::uint8_t& count = counts_[place(key, row)];
    if (count == now) ++count;
  }
}

int FrequencySketch::of(const CacheKey& key) const {
  std::uint8_t least = kMostCounted;
  for (int row = 0; row < kRows; ++row) least = std::min(least, counts_[place(key, row)]);
  return least;
}

void FrequencySketch::halve() {
  for (std::uint8_t& count : counts_) count /= 2;
}

ResponseCache::ResponseCache(std::size_t bytes, Nanos ttl)
    : most_(bytes),
      window_most_(bytes / kWindowPart),
      kept_most_(static_cast<std::size_t>(static_cast<double>(bytes - window_most_) * kKeptPart)),
      ttl_(ttl),
      frequency_(width_for(bytes)) {}

void ResponseCache::note(const CacheKey& key) {
  frequency_.add(key);
  const std::size_t answers = std::max(by_key_.size(), frequency_.width() / kFewAnswers);
  if (++asked_ < kSample * static_cast<long>(answers)) return;
  asked_ = 0;
  frequency_.halve();
}

const std::string* ResponseCache::find(const CacheKey& key, Nanos now) {
  note(key);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const Entries::iterator entry = found->second;
  if (ttl_ > 0 && now - entry->came >= ttl_) {
    drop(entry);
    return nullptr;
  }
  touch(entry);
  return &entry->answer;
}

void ResponseCache::put(const CacheKey& key, std::string answer, Nanos now) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) drop(found->second);
  parts_[window].push_front({.key = key, .answer = std::move(answer), .came = now});
  bytes_[window] += parts_[window].front().size();
  by_key_.emplace(key, parts_[window].begin());
  shrink_window();
}

void ResponseCache::clear() {
  by_key_.clear();
  for (Entries& part : parts_) part.clear();
  bytes_ = {};
}

void ResponseCache::move(Entries::iterator entry, Part to) {
  bytes_[entry->part] -= entry->size();
  bytes_[to] += entry->size();
  parts_[to].splice(parts_[to].begin(), parts_[entry->part], entry);
  entry->part = to;
}

void ResponseCache::drop(Entries::iterator entry) {
  bytes_[entry->part] -= entry->size();
  by_key_.erase(entry->key);
  parts_[entry->part].erase(entry);
}

void ResponseCache::touch(Entries::iterator entry) {
  if (entry->part != probation) return move(entry, entry->part);
  move(entry, kept);
  while (bytes_[kept] > kept_most_ && parts_[kept].size() > 1)
    move(std::prev(parts_[kept].end()), probation);
}

void ResponseCache::shrink_window() {
  while (bytes_[window] > window_most_) let_into_main(std::prev(parts_[window].end()));
}

void ResponseCache::let_into_main(Entries::iterator candidate) {
  const std::size_t room = most_ - window_most_, used = bytes_[probation] + bytes_[kept];
  const std::size_t size = candidate->size();
  if (size > room) {
    ++evictions_;
    return drop(candidate);
  }
  std::vector<Entries::iterator> victims;
  std::size_t freed = room - used;
  const int wanted = frequency_.of(candidate->key);
  int worth = 0;
  for (const Part part : {probation, kept})
    for (auto at = parts_[part].end(); freed < size && at != parts_[part].begin();) {
      victims.push_back(--at);
      freed += at->size();
      worth += frequency_.of(at->key);
      if (worth < wanted) continue;
      ++evictions_;
      return drop(candidate);
    }
  for (const Entries::iterator victim : victims) drop(victim);
  evictions_ += static_cast<long>(victims.size());
  move(candidate, probation);
}

}  // namespace partita::serve
