#include "serve/load/kv_probe.h"

#include <algorithm>
#include <optional>

namespace partita::serve {
namespace {

// A request that got no token while another got so many was not computed.
constexpr std::ptrdiff_t kPause = 8;
constexpr double kTogether = 0.985;

std::ptrdiff_t tokens_until(const TokenTimes& answer, std::int64_t time) {
  return std::ranges::upper_bound(answer.at, time) - answer.at.begin();
}

bool pauses(const TokenTimes& one, const std::vector<TokenTimes>& others, std::int64_t until) {
  for (std::size_t i = 1; i < one.at.size() && one.at[i - 1] < until; ++i)
    for (const TokenTimes& other : others)
      if (tokens_until(other, std::min(one.at[i], until)) - tokens_until(other, one.at[i - 1]) >=
          kPause)
        return true;
  return false;
}

// The search, one run after the other.
class Search {
 public:
  Search(const KvProbe& probe, const PlayTogether& play) : probe_(probe), play_(play) {}

  Result<KvFound> run() {
    int requests = 1, length = probe_.least_tokens;
    if (!fits(requests, length)) return first_fault();
    while (2 * requests <= probe_.most_requests && fits(2 * requests, length) && together_)
      requests *= 2;
    while (length <= probe_.most_tokens / 2 && fits(requests, 2 * length)) length *= 2;
    // Where a longer one is none that the engine takes, more of them are tried.
    while (refused_ && 2 * requests <= probe_.most_requests && fits(2 * requests, length))
      requests *= 2;
    if (refused_ || over()) return found(over() ? "time was up" : error_);
    int above = 2 * length;
    if (above > probe_.most_tokens) return found("longer requests are not tried");
    while (above - length > 1 && above > (1 + probe_.precision) * length && !over()) {
      const int middle = length + (above - length) / 2;
      (fits(requests, middle) ? length : above) = middle;
      if (refused_) break;
    }
    found_.full = !refused_ && !over();
    return found(over() ? "time was up" : error_);
  }

 private:
  bool over() const { return probe_.is_over && probe_.is_over(); }

  bool fits(int requests, int length) {
    if (over()) return false;
    const auto answers = play_(requests, length);
    refused_ = !answers;
    error_ = answers ? "" : answers.error().message;
    if (!answers) return false;
    const double held = held_together(*answers, probe_.margin);
    double all = 0;
    for (const TokenTimes& one : *answers)
      all += static_cast<double>(one.prompt) + static_cast<double>(one.at.size());
    together_ = held >= kTogether * all;
    if (held > found_.tokens) {
      found_.tokens = held;
      found_.requests = requests;
      found_.length = length;
    }
    return held > 0;
  }
  Result<KvFound> first_fault() const {
    return environment_error("", refused_ ? error_ : "a request by itself is not answered in time");
  }
  KvFound found(const std::string& why) {
    found_.ended = why;
    return found_;
  }

  const KvProbe& probe_;
  const PlayTogether& play_;
  KvFound found_;
  bool refused_ = false;   // the last one was
  bool together_ = false;  // it had nearly all of its tokens when the first ended
  std::string error_;
};

}  // namespace

double held_together(const std::vector<TokenTimes>& answers, std::int64_t margin) {
  std::optional<std::int64_t> last_first, first_last;
  for (const TokenTimes& one : answers) {
    if (one.at.empty()) return 0;
    last_first = std::max(one.at.front(), last_first.value_or(one.at.front()));
    first_last = std::min(one.at.back(), first_last.value_or(one.at.back()));
  }
  if (!last_first || *last_first + margin >= *first_last) return 0;
  double held = 0;
  for (const TokenTimes& one : answers) {
    if (pauses(one, answers, *first_last)) return 0;
    // Of the newest token nothing is kept yet.
    held += static_cast<double>(one.prompt + tokens_until(one, *first_last) - 1);
  }
  return held;
}

Result<KvFound> find_kv_tokens(const KvProbe& probe, const PlayTogether& play) {
  return Search(probe, play).run();
}

}  // namespace partita::serve
