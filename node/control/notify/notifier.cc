#include "control/notify/notifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "base/processes.h"
#include "base/secret_file.h"
#include "base/http/http_stream.h"

namespace partita::notify {
namespace {

constexpr std::int64_t kLookNs = 5'000'000;  // between looks at a program

std::int64_t ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

Result<std::string> bearer(const Webhook& hook) {
  if (hook.token_file.empty()) return std::string();
  TRY(check_secret_file(hook.token_file));
  RealFiles files;
  auto token = TRY(files.read(hook.token_file));
  token.resize(std::min(token.size(), token.find_first_of("\r\n")));
  const bool plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; });
  if (token.empty() || !plain) return bad_input(hook.token_file, "holds no token");
  return "Authorization: Bearer " + token + "\r\n";
}

Try post(const Webhook& hook, double timeout_s, const std::string& body) {
  const auto url = parse_url("webhook", hook.url);
  if (!url) return {false, false, to_string(url.error())};
  const auto authorization = bearer(hook);
  if (!authorization) return {false, true, to_string(authorization.error())};
  const auto dialer = serve::HttpDialer::to(*url, {.ca_file = hook.ca_file});
  if (!dialer) return {false, true, to_string(dialer.error())};
  const std::string headers =
      "User-Agent: partita\r\nContent-Type: application/json\r\n" + *authorization;
  RealClock clock;
  const auto answer =
      serve::fetch(*dialer, dialer->request("POST", "", headers, body), clock, ns(timeout_s));
  if (!answer) return {false, true, to_string(answer.error())};
  if (answer->status >= 200 && answer->status < 300) return {true, false, {}};
  // What the server calls our fault will not be better the next time.
  const bool ours = answer->status >= 400 && answer->status < 500 && answer->status != 408 &&
                    answer->status != 429;
  return {false, !ours, fmt::format("answered with status {}", answer->status)};
}

Try run(const Program& program, double timeout_s, const std::string& input) {
  RealProcesses processes;
  RealClock clock;
  const auto pid = processes.start({.argv = program.argv, .input = input});
  if (!pid) return {false, true, to_string(pid.error())};
  const std::int64_t until = clock.now_ns() + ns(timeout_s);
  bool killed = false;
  while (true) {
    for (const ProcessExit& exit : processes.exited()) {
      if (exit.pid != *pid) continue;
      if (killed) return {false, true, fmt::format("took more than {} s", timeout_s)};
      if (exit.status == 0) return {true, false, {}};
      return {false, true, fmt::format("ended with status {}", exit.status)};
    }
    if (!killed && clock.now_ns() > until) {
      killed = true;
      if (auto stopped = processes.stop(*pid, StopSignal::kill); !stopped)
        return {false, true, to_string(stopped.error())};
    }
    clock.sleep_ns(kLookNs);
  }
}

}  // namespace

Try try_once(const Receiver& receiver, const Notice& notice) {
  if (const auto* hook = std::get_if<Webhook>(&receiver.how))
    return post(*hook, receiver.timeout_s, hook->chat ? chat_json(notice) : notice_json(notice));
  return run(std::get<Program>(receiver.how), receiver.timeout_s, notice_json(notice));
}

// One receiver with its queue and its thread.
class Notifier::Line {
 public:
  Line(Receiver receiver, const Patience& patience)
      : receiver_(std::move(receiver)), patience_(patience), thread_([this] { work(); }) {}
  ~Line() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void tell(const Notice& notice) {
    const bool wanted = receiver_.alarms.empty() ||
                        std::ranges::find(receiver_.alarms, notice.alarm) != receiver_.alarms.end();
    if (!wanted) return;
    const std::lock_guard lock(mutex_);
    if (!due(notice)) return;
    if (queue_.size() >= kMaxQueued) {
      report({receiver_.name, queue_.front(), false, 0, "too many others waited"});
      queue_.pop_front();
    }
    queue_.push_back(notice);
    wake_.notify_all();
  }

  void take_reports(std::vector<Report>& into) {
    const std::lock_guard lock(mutex_);
    std::ranges::move(reports_, std::back_inserter(into));
    reports_.clear();
  }

  bool idle() const {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }

 private:
  // Whether this alarm of this subject has not been told for long enough.
  bool due(const Notice& notice) {
    const auto now = std::chrono::steady_clock::now();
    const auto quiet = std::chrono::duration<double>(receiver_.quiet_s);
    std::erase_if(last_, [&](const auto& one) { return now - one.second >= quiet; });
    if (last_.size() >= kMaxReports) return true;
    return last_.emplace(std::pair(notice.alarm, notice.subject), now).second ||
           receiver_.quiet_s <= 0;
  }

  void report(Report one) {
    if (reports_.size() >= kMaxReports) reports_.pop_front();
    reports_.push_back(std::move(one));
  }

  // With the mutex unlocked while somebody is being told.
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      Report current{receiver_.name, queue_.front()};
      queue_.pop_front();
      busy_ = true;
      std::int64_t pause_ms = patience_.first_pause_ms;
      while (true) {
        lock.unlock();
        const Try outcome = try_once(receiver_, current.notice);
        lock.lock();
        ++current.tries;
        current.told = outcome.told;
        current.why = outcome.why;
        if (outcome.told || !outcome.retry || current.tries >= receiver_.tries) break;
        if (wake_.wait_for(lock, std::chrono::milliseconds(pause_ms), [&] { return stopping_; }))
          break;
        pause_ms = std::min(2 * pause_ms, patience_.longest_pause_ms);
      }
      report(std::move(current));
      busy_ = false;
    }
  }

  const Receiver receiver_;
  const Patience patience_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Notice> queue_;
  std::deque<Report> reports_;
  std::map<std::pair<Alarm, std::string>, std::chrono::steady_clock::time_point> last_;
  bool stopping_ = false, busy_ = false;
  std::thread thread_;  // last: it uses the others
};

Notifier::Notifier(std::vector<Receiver> receivers, const Patience& patience) {
  for (Receiver& receiver : receivers)
    lines_.push_back(std::make_unique<Line>(std::move(receiver), patience));
}
Notifier::~Notifier() = default;

void Notifier::tell(const Notice& notice) {
  for (const auto& line : lines_) line->tell(notice);
}

std::vector<Report> Notifier::reports() {
  std::vector<Report> all;
  for (const auto& line : lines_) line->take_reports(all);
  return all;
}

bool Notifier::idle() const {
  return std::ranges::all_of(lines_, [](const auto& line) { return line->idle(); });
}

}  // namespace partita::notify
