// Senders: which clients have done harm, by token or address. One is watched for a while when its
// requests failed by themselves, or when workers died with them in flight: what it sends then runs
// alone, one request at a time, later and later. One is doubted from the first death on until that
// request has an answer: what it sends stays off the last worker. Who has had many good answers is
// proven, and gets the benefit of the doubt. Times are the caller's; bounded: at most kMostSenders
// are remembered.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "serve/brain/service_brain.h"

namespace partita::serve {

inline constexpr std::size_t kMostSenders = 32'768;  // more than keys that a gateway knows
inline constexpr int kFaultsToWatch = 3;  // requests that failed by themselves within kFaultWindow,
                                          // or deaths that may be of them
inline constexpr Nanos kOneDeath = 1'000'000'000;  // suspicions so close are of the same one
inline constexpr Nanos kFaultWindow = 60'000'000'000;
inline constexpr Nanos kDoubtedFor = 300'000'000'000;  // workers may take long to come back
inline constexpr Nanos kWatchedFor = 10'000'000'000;  // doubles with every offence, up to
inline constexpr Nanos kWatchedAtMost = 300'000'000'000;
inline constexpr Nanos kHarmPause = 1'000'000'000;  // after harm; doubles, up to
inline constexpr Nanos kHarmPauseAtMost = 60'000'000'000;
inline constexpr int kWatchedShare = 10;  // a watched request's time, waited before the next
inline constexpr int kGoodToProve = 100;  // answers without any harm

class Senders {
 public:
  // A request was answered.
  void good(std::string_view sender, Nanos now);
  // One failed, alone.
  void fault(std::string_view sender, Nanos now);
  // A worker died with one in flight that may be why, and nobody knows: it had no second try.
  void suspicion(std::string_view sender, Nanos now);
  // A worker died or hung just now with one in flight that may be why.
  void doubt(std::string_view sender, Nanos now);
  // That one has its answer.
  void clear(std::string_view sender);
  // Workers died of one.
  void harm(std::string_view sender, Nanos now);

  bool proven(std::string_view sender) const;
  bool doubted(std::string_view sender, Nanos now) const;
  bool watched(std::string_view sender, Nanos now) const;
  // Watched now, for what it did before `since`: a connection that began to be well after that is
  // no better than its sender.
  bool watched_since_before(std::string_view sender, Nanos since, Nanos now) const;
  // How long a watched sender has to wait before its next request; 0: not at all.
  Nanos wait(std::string_view sender, Nanos now) const;
  void begun(std::string_view sender);  // a request of a watched sender was let in,
  void ended(std::string_view sender, Nanos now, Nanos took);  // and is over

 private:
  struct Sender {
    int good = 0, faults = 0, suspicions = 0, offences = 0, under_way = 0;
    Nanos first_fault = 0, first_suspicion = 0, last_suspicion = 0, touched = 0;
    Nanos watched_from = 0, watched_until = 0, next = 0, doubted_until = 0;
  };
  const Sender* find(std::string_view name) const;
  Sender& at(std::string_view name, Nanos now);
  void make_room(Nanos now);
  static void watch(Sender& sender, Nanos now);
  std::map<std::string, Sender, std::less<>> senders_;
};

}  // namespace partita::serve
