#include "serve/load/kv_probe.h"

#include <algorithm>

namespace partita::serve {
namespace {

// A request that got no token while another got so many was not computed.
constexpr std::ptrdiff_t kPause = 4;
constexpr double kTogether = 0.985;
// Of shorter ones the blocks that are not full are too much.
constexpr int kShortest = 160;
constexpr int kLeastTried = 16;  // that is tried

std::ptrdiff_t tokens_until(const TokenTimes& answer, std::int64_t time) {
  return std::ranges::upper_bound(answer.at, time) - answer.at.begin();
}

// It was not computed for a while that began before that time.
bool pauses(const TokenTimes& one, const std::vector<TokenTimes>& others, std::int64_t until) {
  for (std::size_t i = 1; i < one.at.size() && one.at[i - 1] < until; ++i)
    for (const TokenTimes& other : others)
      if (tokens_until(other, one.at[i]) - tokens_until(other, one.at[i - 1]) >= kPause)
        return true;
  return false;
}

// The search, one run after the other.
class Search {
 public:
  Search(const KvProbe& probe, const PlayTogether& play) : probe_(probe), play_(play) {}

  Result<KvFound> run() {
    int requests = 1, length = probe_.least_tokens;
    while (!fits(requests, length)) {
      if (!refused_ || length < kLeastTried || over()) return first_fault();
      length /= 2;  // it may be longer than the engine takes
    }
    while (2 * requests <= probe_.most_requests && fits(2 * requests, length) && together_)
      requests *= 2;
    while (length <= probe_.most_tokens / 2 && fits(requests, 2 * length)) length *= 2;
    while (length < kShortest && requests > 1 && !refused_) {
      requests /= 2;
      while (length <= probe_.most_tokens / 2 && fits(requests, 2 * length)) length *= 2;
    }
    int above = 2 * length;
    bool longest = above > probe_.most_tokens || refused_;  // not for want of cache
    // Where an engine takes no longer ones, more of them are tried; twice as many of half the
    // length need about as much, unless it takes no more of them either.
    while (longest && 2 * requests <= probe_.most_requests && !over()) {
      if (fits(2 * requests, length)) {
        requests *= 2;
        continue;
      }
      if (length / 2 < kLeastTried || !fits(2 * requests, length / 2)) break;
      requests *= 2;
      above = length;
      length /= 2;
      longest = false;
    }
    while (above - length > 1 && above > (1 + probe_.precision) * length && !over()) {
      const int middle = length + (above - length) / 2;
      const bool fitted = fits(requests, middle);
      (fitted ? length : above) = middle;
      if (!fitted) longest = refused_;
    }
    found_.full = !longest && !over();
    found_.ended = over() ? "time was up" : longest ? "it takes no longer requests" : "";
    return found_;
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
    together_ = held + (kPause + 2) * requests >= kTogether * all;
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
  const KvProbe& probe_;
  const PlayTogether& play_;
  KvFound found_;
  bool refused_ = false;   // the last one was
  bool together_ = false;  // it had nearly all of its tokens when the first ended
  std::string error_;
};

}  // namespace

double held_together(const std::vector<TokenTimes>& answers, std::int64_t margin) {
  std::int64_t last_first = 0;
  const TokenTimes* first = nullptr;  // that ends
  for (const TokenTimes& one : answers) {
    if (std::ssize(one.at) < kPause + 2) return 0;
    last_first = std::max(last_first, one.at.front());
    if (first == nullptr || one.at.back() < first->at.back()) first = &one;
  }
  if (first == nullptr) return 0;
  // So long before it ends that one that is not there then has a pause.
  const std::int64_t time = first->at[first->at.size() - 2 - kPause];
  if (last_first + margin >= time) return 0;
  double held = 0;
  for (const TokenTimes& one : answers) {
    if (pauses(one, answers, time)) return 0;
    // Of the newest token nothing is kept yet.
    held += static_cast<double>(one.prompt + tokens_until(one, time) - 1);
  }
  return held;
}

Result<KvFound> find_kv_tokens(const KvProbe& probe, const PlayTogether& play) {
  return Search(probe, play).run();
}

}  // namespace partita::serve
