#include "fleet/etcd/etcd_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/append.h"
#include "base/secret_file.h"
#include "base/url.h"
#include "fleet/etcd/etcd_messages.h"

namespace partita::fleet {
namespace {

constexpr std::int64_t kPatience = 3'000'000'000;
constexpr std::int64_t kSilence = 900'000'000'000;  // of a watch of a fleet where nothing happens
constexpr std::uint64_t kMostAnswer = 256u << 20;
constexpr std::size_t kMostLine = 64u << 20;  // of a watch
constexpr int kFailuresOfAnAddress = 3;       // of one member, one after another

bool is_local(const Url& url) {
  return url.host == "localhost" || url.host == "::1" || url.host.starts_with("127.");
}

// Lines of a watch, read by a thread. A member that hangs says nothing, and ends nothing: it is
// found out by calls, which go to another one then.
class EtcdWatch final : public Watch {
 public:
  EtcdWatch(std::shared_ptr<const serve::HttpDialer> dialer, std::string request, Clock& clock,
            const std::size_t& chosen)
      : chosen_(chosen),
        member_(chosen),
        dialer_(std::move(dialer)),
        request_(std::move(request)),
        clock_(clock),
        reader_([this] { read(); }) {}
  ~EtcdWatch() override {
    ending_ = true;
    reader_.join();
  }

  Result<std::vector<SeenChange>> take() override {
    if (chosen_ != member_)
      return environment_error("etcd", "the member that is watched does not answer");
    const std::lock_guard hold(lock_);
    if (seen_.empty() && fault_) return failed(*fault_);
    return std::exchange(seen_, {});
  }

 private:
  void read() {
    std::string begun;
    const auto done = serve::fetch_pieces(
        *dialer_, request_, clock_, kSilence, [&](int status, std::string_view piece) {
          begun += piece;
          if (begun.size() > kMostLine || ending_) return false;
          return (status == 0 || status == 200) && take_lines(begun);
        });
    const std::lock_guard hold(lock_);
    if (fault_) return;
    fault_ = Error{ErrorCode::environment,
                   done ? "the watch has ended" : "the watch is broken: " + done.error().message,
                   "etcd"};
  }
  // Whether the watch goes on.
  bool take_lines(std::string& begun) {
    for (std::size_t end; (end = begun.find('\n')) != std::string::npos; begun.erase(0, end + 1)) {
      if (end == 0) continue;
      auto line = parse_watch_line(std::string_view(begun).substr(0, end));
      const std::lock_guard hold(lock_);
      if (!line) {
        fault_ = line.error();
        return false;
      }
      seen_.insert(seen_.end(), line->changes.begin(), line->changes.end());
    }
    return true;
  }

  const std::size_t& chosen_;  // of the store
  const std::size_t member_;
  const std::shared_ptr<const serve::HttpDialer> dialer_;
  const std::string request_;
  Clock& clock_;
  std::mutex lock_;
  std::vector<SeenChange> seen_;
  std::optional<Error> fault_;
  std::atomic<bool> ending_ = false;
  std::thread reader_;  // last: it uses the others
};

}  // namespace

// Its address is looked up, and files of TLS are read, when it is first asked and after failures:
// it may have moved, and certificates are renewed.
struct EtcdStore::Member {
  std::string name;
  Url url;
  std::shared_ptr<const serve::HttpDialer> dialer = {};
  int failures = 0;  // one after another
};

EtcdStore::EtcdStore(EtcdSettings settings, Files& files, Clock& clock)
    : settings_(std::move(settings)), files_(files), clock_(clock) {}
EtcdStore::~EtcdStore() = default;

Result<std::unique_ptr<EtcdStore>> EtcdStore::to(EtcdSettings settings, Files& files,
                                                 Clock& clock) {
  std::unique_ptr<EtcdStore> store(new EtcdStore(std::move(settings), files, clock));
  for (const std::string& endpoint : store->settings_.endpoints) {
    const auto url = parse_url_prefix("endpoints", endpoint);
    if (!url) return failed(url.error());
    if (!url->tls && !store->settings_.user.empty() && !is_local(*url))
      return bad_input("endpoints",
                       "a password is not sent over a network in the clear: use https");
    store->members_.push_back({endpoint, *url});
  }
  if (store->members_.empty()) return bad_input("endpoints", "there is no endpoint of etcd");
  if (!store->settings_.asks.empty())
    store->chosen_ = std::hash<std::string>{}(store->settings_.asks) % store->members_.size();
  return store;
}

std::string EtcdStore::request(const Member& member, const std::string& path,
                               const std::string& body) const {
  const std::string token = token_.empty() ? "" : fmt::format("Authorization: {}\r\n", token_);
  return member.dialer->request("POST", "/v3/" + path, token + "Content-Type: application/json\r\n",
                                body);
}

Result<std::string> EtcdStore::ask_one(Member& member, const std::string& path,
                                       const std::string& body) {
  if (!member.dialer || member.failures >= kFailuresOfAnAddress) {
    auto dialer = serve::HttpDialer::to(member.url, settings_.tls);
    if (!dialer && !member.dialer) return failed(dialer.error());
    if (dialer) member.dialer = std::make_shared<const serve::HttpDialer>(*std::move(dialer));
    member.failures = 0;
  }
  auto answer =
      serve::fetch(*member.dialer, request(member, path, body), clock_, kPatience, kMostAnswer);
  member.failures = answer ? 0 : member.failures + 1;
  if (!answer) return environment_error(member.name, answer.error().message);
  if (answer->status == 200) return std::move(answer->body);
  Error fault = fault_of(answer->body);
  if (fault.code == ErrorCode::environment) fault.context = member.name;
  return failed(std::move(fault));
}

// A member that does not answer, or has no leader, is passed over.
Result<std::string> EtcdStore::ask_any(const std::string& path, const std::string& body) {
  std::vector<std::string> why;
  for (std::size_t tried = 0; tried < members_.size(); ++tried) {
    auto answer = ask_one(members_[chosen_], path, body);
    if (answer || answer.error().code != ErrorCode::environment) return answer;
    why.push_back(to_string(answer.error()));
    chosen_ = (chosen_ + 1) % members_.size();
  }
  return environment_error("etcd", "no member does what is asked: " + joined(why, "; "));
}

Result<std::string> EtcdStore::ask(const std::string& path, const std::string& body) {
  if (!settings_.user.empty() && token_.empty())
    if (auto done = log_in(); !done) return failed(done.error());
  auto answer = ask_any(path, body);
  if (answer || settings_.user.empty() || answer.error().code != ErrorCode::denied) return answer;
  if (auto done = log_in(); !done) return failed(done.error());
  return ask_any(path, body);
}

Result<void> EtcdStore::log_in() {
  token_.clear();
  if (auto secret = check_secret_file(settings_.password_file); !secret)
    return failed(secret.error());
  const auto password = files_.read(settings_.password_file);
  if (!password) return failed(password.error());
  const std::string word = password->substr(0, password->find_first_of("\r\n"));
  const auto answer = ask_any("auth/authenticate", login_request(settings_.user, word));
  if (!answer) return failed(answer.error());
  const auto token = parse_token(*answer);
  if (!token) return failed(token.error());
  token_ = *token;
  return {};
}

Result<Range> EtcdStore::range(const Places& places) {
  Range whole;
  Places in_order = places;
  std::ranges::sort(in_order);
  for (const std::string& place : in_order)
    if (auto done = add_range(place, whole); !done) return failed(done.error());
  return whole;
}

Result<void> EtcdStore::add_range(const std::string& place, Range& whole) {
  std::string first = place;
  for (bool more = true; more;) {
    const auto body = ask("kv/range", range_request(first, end_of(place), whole.revision));
    if (!body) return failed(body.error());
    auto page = parse_range(*body);
    if (!page) return failed(page.error());
    if (whole.revision == 0) whole.revision = page->range.revision;
    whole.all.insert(whole.all.end(), std::make_move_iterator(page->range.all.begin()),
                     std::make_move_iterator(page->range.all.end()));
    more = page->more;
    if (more) first = whole.all.back().key + '\0';
  }
  return {};
}

Result<Committed> EtcdStore::commit(const Transaction& transaction) {
  const auto body = ask("kv/txn", txn_request(transaction));
  if (!body) return failed(body.error());
  return parse_txn(*body);
}

Result<long> EtcdStore::grant(int seconds) {
  const auto body = ask("lease/grant", grant_request(seconds));
  if (!body) return failed(body.error());
  return parse_granted(*body);
}

Result<void> EtcdStore::keep_alive(long lease) {
  const auto body = ask("lease/keepalive", lease_request(lease));
  if (!body) return failed(body.error());
  const auto left = parse_kept_alive(*body);
  if (!left) return failed(left.error());
  if (*left == 0) return failed({ErrorCode::not_found, "the lease has ended", "etcd"});
  return {};
}

Result<void> EtcdStore::revoke(long lease) {
  const auto body = ask("lease/revoke", lease_request(lease));
  return body ? Result<void>() : failed(body.error());
}

Result<std::unique_ptr<Watch>> EtcdStore::watch(const Places& places, long after) {
  const Member& member = members_[chosen_];
  if (!member.dialer) return environment_error(member.name, "nothing was read of it yet");
  const std::string body = watch_request(places, after);
  return std::make_unique<EtcdWatch>(member.dialer, request(member, "watch", body), clock_,
                                     chosen_);
}

Result<void> EtcdStore::compact(long revision) {
  const auto body = ask("kv/compaction", compaction_request(revision));
  if (body || body.error().message.find("compacted") != std::string::npos) return {};
  return failed(body.error());
}

Result<std::string> EtcdStore::alarms() {
  const auto body = ask("maintenance/alarm", "{\"action\":\"GET\"}");
  if (!body) return failed(body.error());
  return parse_alarms(*body);
}

}  // namespace partita::fleet
