#include "control/report.h"

namespace partita::control {

void Report::begin(std::int64_t now_ms, std::int64_t next_ms) {
  now_ms_ = now_ms;
  next_ms_ = next_ms;
}

void Report::record(history::EventKind kind, history::Event event) {
  event.time_ms = now_ms_;
  event.kind = kind;
  if (event.user.empty()) event.user = "agent";
  events_.push_back(std::move(event));
}

void Report::tell(NoticeKind kind, const std::string& key, const std::string& subject,
                  const std::string& sentence, long change) {
  if (!told_.emplace(key, sentence).second) return;
  constexpr std::size_t kNotices = 20;
  notices_.insert(notices_.begin(), sentence);
  if (notices_.size() > kNotices) notices_.resize(kNotices);
  news_.push_back({kind, subject, sentence, change});
}

void Report::tell_anew(NoticeKind kind, const std::string& key, const std::string& subject,
                       const std::string& sentence, long change) {
  if (const auto told = told_.find(key); told != told_.end() && told->second != sentence) over(key);
  tell(kind, key, subject, sentence, change);
}

void Report::over(const std::string& key) {
  const auto told = told_.find(key);
  if (told == told_.end()) return;
  std::erase(notices_, told->second);
  told_.erase(told);
}

}  // namespace partita::control
