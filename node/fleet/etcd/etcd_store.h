// EtcdStore: a Store in etcd 3.4 and newer, by its JSON gateway. It asks the member that answered
// last, then the others; a watch of a member that does not answer any more is broken. A call waits
// at most kPatience per member; a watch runs on a thread of its own. Thread rule: one thread for
// calls; the store outlives its watches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/http/http_stream.h"
#include "fleet/etcd/store.h"

namespace partita::fleet {

struct EtcdSettings {
  std::vector<std::string> endpoints;  // "http://10.0.0.1:2379"
  serve::TlsWishes tls = {};           // of those that are https
  std::string user = {}, password_file = {};
  // Whoever asks, by its name: many begin at different members. Empty: at the first.
  std::string asks = {};
};

class EtcdStore final : public Store {
 public:
  // bad_input: endpoints that are none, a password that would go over a network in the clear.
  static Result<std::unique_ptr<EtcdStore>> to(EtcdSettings settings, Files& files, Clock& clock);
  ~EtcdStore() override;

  Result<Range> range(const Places& places) override;
  Result<Committed> commit(const Transaction& transaction) override;
  Result<long> grant(int seconds) override;
  Result<void> keep_alive(long lease) override;
  Result<void> revoke(long lease) override;
  Result<std::unique_ptr<Watch>> watch(const Places& places, long after) override;
  Result<void> compact(long revision) override;
  // What its members warn of, "NOSPACE": nothing can be written; empty: nothing.
  Result<std::string> alarms();

 private:
  struct Member;
  EtcdStore(EtcdSettings settings, Files& files, Clock& clock);
  Result<void> add_range(const std::string& place, Range& whole);
  Result<std::string> ask(const std::string& path, const std::string& body);
  Result<std::string> ask_any(const std::string& path, const std::string& body);
  Result<std::string> ask_one(Member& member, const std::string& path, const std::string& body);
  Result<void> log_in();
  std::string request(const Member& member, const std::string& path, const std::string& body) const;

  EtcdSettings settings_;
  Files& files_;
  Clock& clock_;
  std::vector<Member> members_;
  std::size_t chosen_ = 0;
  std::string token_;
};

}  // namespace partita::fleet
