// FairShares: how much of one service each key gets while more is asked than it carries. Pure;
// times are the caller's. Bounded by the number of keys.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "serve/brain/service.h"

namespace partita::serve {

// Start-time fair queueing at the door: every key has a virtual time, rows let in over its weight.
// It may be ahead of the oldest row that waits by its part of what may wait, so that keys that ask
// for more than their shares hold parts of the queue that are as their weights. Who holds less than
// its part of what waits now is let in all the same. Who was refused keeps what it is behind. What
// a request costs grows with the logarithm of the number of keys.
class FairShares {
 public:
  // The start tag of its next row; nothing: it is ahead, and the others are to come first. `depth`:
  // rows that may wait altogether and be in time.
  std::optional<double> may(std::string_view key, double weight, double depth, Nanos now);
  void let_in(std::string_view key, double tag, int rows);
  void refused(std::string_view key, Nanos now);  // for another reason
  void waits(std::string_view key, double tag);
  void begun(std::string_view key, double tag);  // it does not wait any more
  double waiting() const { return static_cast<double>(waiting_.size()); }  // rows
  // For how long a key counts as there once it has asked; at first a second.
  void remember(Nanos recent) { recent_ = recent; }

 private:
  struct Key {
    double next = 0, weight = 1;
    int waiting = 0;
    Nanos asked = 0, refused = 0;
    bool asks = false, behind = false;  // it is in one of the lists, at these places
    std::list<Key*>::iterator asks_at = {}, behind_at = {};
  };
  double floor(Nanos now);
  void asks(Key& key, double weight, Nanos now);
  void falls_behind(Key& key, Nanos now);
  void forget_old(Nanos now);

  std::map<std::string, Key, std::less<>> keys_;
  std::multiset<double> waiting_;
  std::list<Key*> asking_, refused_;           // lately, who did last at the end
  std::set<std::pair<double, Key*>> by_next_;  // those refused
  double floor_ = 0, weights_ = 0;             // of those asking
  double ahead_ = 0;                           // the furthest `next`
  Nanos recent_ = 1'000'000'000;               // who asked, or was refused, so lately counts
};

}  // namespace partita::serve
