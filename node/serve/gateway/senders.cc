#include "serve/gateway/senders.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace partita::serve {
namespace {

// `first`, doubled with every time after the first.
Nanos doubled(Nanos first, int times, Nanos most) {
  for (int i = 1; i < times && first < most; ++i) first *= 2;
  return std::min(first, most);
}

}  // namespace

const Senders::Sender* Senders::find(std::string_view name) const {
  const auto found = senders_.find(name);
  return found == senders_.end() ? nullptr : &found->second;
}

// A quarter at once, so that each that comes costs little: who is not watched goes first, and then
// who was not heard of for longest.
void Senders::make_room(Nanos now) {
  using At = decltype(senders_)::iterator;
  std::vector<At> all;
  for (At at = senders_.begin(); at != senders_.end(); ++at) all.push_back(at);
  const auto order = [now](At one) {
    const Sender& is = one->second;
    return std::pair(std::max(is.watched_until, is.doubted_until) > now, is.touched);
  };
  const auto some = all.begin() + kMostSenders / 4;
  std::nth_element(all.begin(), some, all.end(), [&](At a, At b) { return order(a) < order(b); });
  std::for_each(all.begin(), some, [&](At at) { senders_.erase(at); });
}

Senders::Sender& Senders::at(std::string_view name, Nanos now) {
  auto found = senders_.find(name);
  if (found == senders_.end()) {
    if (senders_.size() >= kMostSenders) make_room(now);
    found = senders_.emplace(std::string(name), Sender{}).first;
  }
  found->second.touched = now;
  return found->second;
}

void Senders::watch(Sender& sender, Nanos now) {
  if (now > sender.watched_until + kWatchedAtMost) sender.offences = 0;  // long ago
  if (sender.offences++ == 0) sender.watched_from = now;
  sender.good = sender.faults = sender.suspicions = 0;
  sender.watched_until = now + doubled(kWatchedFor, sender.offences, kWatchedAtMost);
}

void Senders::good(std::string_view sender, Nanos now) {
  Sender& is = at(sender, now);
  if (is.watched_until <= now && is.good < kGoodToProve) ++is.good;
}

void Senders::fault(std::string_view sender, Nanos now) {
  Sender& is = at(sender, now);
  if (now - is.first_fault > kFaultWindow) is.faults = 0;
  if (is.faults++ == 0) is.first_fault = now;
  if (is.faults >= kFaultsToWatch) watch(is, now);
}

void Senders::suspicion(std::string_view sender, Nanos now) {
  Sender& is = at(sender, now);
  if (is.suspicions > 0 && now - is.last_suspicion < kOneDeath) return;
  if (now - is.first_suspicion > kFaultWindow) is.suspicions = 0;
  if (is.suspicions++ == 0) is.first_suspicion = now;
  is.last_suspicion = now;
  if (is.suspicions >= kFaultsToWatch) watch(is, now);
}

void Senders::doubt(std::string_view sender, Nanos now) {
  Sender& is = at(sender, now);
  is.good = 0;
  is.doubted_until = now + kDoubtedFor;
}

void Senders::clear(std::string_view sender) {
  if (const auto found = senders_.find(sender); found != senders_.end())
    found->second.doubted_until = 0;
}

void Senders::harm(std::string_view sender, Nanos now) {
  Sender& is = at(sender, now);
  watch(is, now);
  is.next = now + doubled(kHarmPause, is.offences, kHarmPauseAtMost);
}

bool Senders::proven(std::string_view sender) const {
  const Sender* is = find(sender);
  return is != nullptr && is->good >= kGoodToProve;
}

bool Senders::doubted(std::string_view sender, Nanos now) const {
  const Sender* is = find(sender);
  return is != nullptr && is->doubted_until > now;
}

bool Senders::watched_since_before(std::string_view sender, Nanos since, Nanos now) const {
  const Sender* is = find(sender);
  return is != nullptr && is->watched_until > now && is->watched_from < since;
}

bool Senders::watched(std::string_view sender, Nanos now) const {
  const Sender* is = find(sender);
  return is != nullptr && is->watched_until > now;
}

Nanos Senders::wait(std::string_view sender, Nanos now) const {
  const Sender* is = find(sender);
  if (is == nullptr || is->watched_until <= now) return 0;
  if (is->under_way > 0) return kHarmPause;
  return std::max<Nanos>(0, is->next - now);
}

void Senders::begun(std::string_view sender) {
  if (const auto found = senders_.find(sender); found != senders_.end()) ++found->second.under_way;
}

void Senders::ended(std::string_view sender, Nanos now, Nanos took) {
  const auto found = senders_.find(sender);
  if (found == senders_.end() || found->second.under_way == 0) return;  // forgotten meanwhile
  --found->second.under_way;
  found->second.next = std::max(found->second.next, now + kWatchedShare * took);
}

}  // namespace partita::serve
