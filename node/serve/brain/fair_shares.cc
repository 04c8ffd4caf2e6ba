#include "serve/brain/fair_shares.h"

#include <algorithm>

namespace partita::serve {
namespace {

constexpr double kFreePart = 0.06, kHalf = 0.5;  // of what may wait

}  // namespace

void FairShares::asks(Key& key, double weight, Nanos now) {
  if (key.asks)
    weights_ -= key.weight;
  else
    key.asks_at = asking_.insert(asking_.end(), &key);
  asking_.splice(asking_.end(), asking_, key.asks_at);
  key.asks = true;
  key.asked = now;
  key.weight = weight;
  weights_ = asking_.size() == 1 ? weight : weights_ + weight;
}

void FairShares::falls_behind(Key& key, Nanos now) {
  if (!key.behind) {
    key.behind_at = refused_.insert(refused_.end(), &key);
    by_next_.emplace(key.next, &key);
  }
  refused_.splice(refused_.end(), refused_, key.behind_at);
  key.behind = true;
  key.refused = now;
}

// Who asked, or was refused, longer ago than recent_.
void FairShares::forget_old(Nanos now) {
  while (!asking_.empty() && now - asking_.front()->asked >= recent_) {
    weights_ -= asking_.front()->weight;
    asking_.front()->asks = false;
    asking_.pop_front();
  }
  while (!refused_.empty() && now - refused_.front()->refused >= recent_) {
    by_next_.erase({refused_.front()->next, refused_.front()});
    refused_.front()->behind = false;
    refused_.pop_front();
  }
}

// The virtual time: of the oldest row that waits. While none does, of the key that is furthest
// behind and was refused, else of the one that is furthest ahead.
double FairShares::floor(Nanos now) {
  forget_old(now);
  if (!waiting_.empty()) return floor_ = std::max(floor_, *waiting_.begin());
  return floor_ = std::max(floor_, by_next_.empty() ? ahead_ : by_next_.begin()->first);
}

std::optional<double> FairShares::may(std::string_view name, double weight, double depth,
                                      Nanos now) {
  Key& key = keys_.try_emplace(std::string(name), Key{.next = floor_}).first->second;
  asks(key, weight, now);
  const double here = floor(now), all = weights_, ahead = depth / all;
  const double tag = std::max(key.next, key.behind ? here - ahead : here);
  // While little waits nobody is in the way of others.
  const auto waiting = static_cast<double>(waiting_.size());
  const bool holds_less = waiting < kHalf * depth && key.waiting * all < weight * waiting;
  if (tag <= here || tag < here + ahead || waiting < kFreePart * depth || holds_less) return tag;
  falls_behind(key, now);
  return std::nullopt;
}

void FairShares::let_in(std::string_view name, double tag, int rows) {
  Key& key = keys_.find(name)->second;
  if (key.behind) by_next_.erase({key.next, &key});
  key.next = tag + rows / key.weight;
  if (key.behind) by_next_.emplace(key.next, &key);
  ahead_ = std::max(ahead_, key.next);
}

void FairShares::refused(std::string_view name, Nanos now) {
  if (const auto found = keys_.find(name); found != keys_.end()) falls_behind(found->second, now);
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
