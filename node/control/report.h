// Report: what a step of the loop says -- events for the history, notices for people, what it is
// doing -- and until when the next step must come. A notice is said once under its key, until the
// key is forgotten: of what happened it is shown further (untell), of what was the matter it goes
// (over). Owned by the loop; its brains write to it. Internal to control.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/deeds.h"

namespace partita::control {

class Report {
 public:
  // A step begins; the next one comes at `next_ms` at the latest.
  void begin(std::int64_t now_ms, std::int64_t next_ms);
  // At the time of this step; without a user it is the agent's.
  void record(history::EventKind kind, history::Event event);
  void tell(NoticeKind kind, const std::string& key, const std::string& subject,
            const std::string& sentence, long change = 0);
  // As tell, but another sentence than the one before takes its place, and is news.
  void tell_anew(NoticeKind kind, const std::string& key, const std::string& subject,
                 const std::string& sentence, long change = 0);
  // What is told under this key next is news.
  void untell(const std::string& key) { told_.erase(key); }
  // As untell, and nobody is shown it any more.
  void over(const std::string& key);
  void look_by(std::int64_t ms) { next_ms_ = std::min(next_ms_, ms); }

  const std::vector<std::string>& notices() const { return notices_; }  // newest first, few
  std::int64_t next_ms() const { return next_ms_; }
  std::vector<history::Event> take_events() { return std::exchange(events_, {}); }
  std::vector<LoopNotice> take_news() { return std::exchange(news_, {}); }

  std::string doing;  // a sentence

 private:
  std::int64_t now_ms_ = 0, next_ms_ = 0;
  std::map<std::string, std::string> told_;
  std::vector<std::string> notices_;
  std::vector<history::Event> events_;
  std::vector<LoopNotice> news_;
};

}  // namespace partita::control
