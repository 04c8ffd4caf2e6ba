#include "serve/brain/fair_shares.h"

#include <algorithm>

namespace partita::serve {
namespace {

constexpr Nanos kRecent = 1'000'000'000;         // who asked, or was refused, so lately counts
constexpr Nanos kSumEvery = 5'000'000;           // of weights
constexpr double kFreePart = 0.06, kHalf = 0.5;  // of what may wait

}  // namespace

double FairShares::weights(Nanos now) {
  if (weights_ > 0 && now - summed_ < kSumEvery) return weights_;
  summed_ = now;
  weights_ = 0;
  for (const auto& [name, key] : keys_)
    if (now - key.asked < kRecent) weights_ += key.weight;
  return weights_;
}

// The virtual time: of the oldest row that waits. While none does, of the key that is furthest
// behind and was refused, else of the one that is furthest ahead.
double FairShares::floor(Nanos now) {
  if (!waiting_.empty()) return floor_ = std::max(floor_, *waiting_.begin());
  double behind = 0, ahead = floor_;
  bool any = false;
  for (const auto& [name, key] : keys_) {
    ahead = std::max(ahead, key.next);
    if (key.refused == 0 || now - key.refused >= kRecent) continue;
    behind = any ? std::min(behind, key.next) : key.next;
    any = true;
  }
  return floor_ = std::max(floor_, any ? behind : ahead);
}

std::optional<double> FairShares::may(std::string_view name, double weight, double depth,
                                      Nanos now) {
  Key& key = keys_.try_emplace(std::string(name), Key{.next = floor_}).first->second;
  if (now - key.asked >= kRecent) weights_ = 0;  // one more
  key.asked = now;
  key.weight = weight;
  const double all = weights(now), ahead = depth / all, here = floor(now);
  const bool behind = key.refused > 0 && now - key.refused < kRecent;
  const double tag = std::max(key.next, behind ? here - ahead : here);
  // While little waits nobody is in the way of others.
  const auto waiting = static_cast<double>(waiting_.size());
  const bool holds_less = waiting < kHalf * depth && key.waiting * all < weight * waiting;
  if (tag <= here || tag < here + ahead || waiting < kFreePart * depth || holds_less) return tag;
  key.refused = now;
  return std::nullopt;
}

void FairShares::let_in(std::string_view name, double tag, int rows) {
  Key& key = keys_.find(name)->second;
  key.next = tag + rows / key.weight;
}

void FairShares::refused(std::string_view name, Nanos now) {
  if (const auto found = keys_.find(name); found != keys_.end()) found->second.refused = now;
}

void FairShares::waits(std::string_view name, double tag) {
  waiting_.insert(tag);
  if (const auto found = keys_.find(name); found != keys_.end()) ++found->second.waiting;
}

void FairShares::begun(std::string_view name, double tag) {
  const auto found = waiting_.find(tag);
  if (found == waiting_.end()) return;
  waiting_.erase(found);
  if (const auto key = keys_.find(name); key != keys_.end()) --key->second.waiting;
}

}  // namespace partita::serve
