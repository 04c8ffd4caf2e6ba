// What is said to etcd and what it answers, by the JSON gateway of its version 3: keys and values
// in base64, 64-bit numbers as texts, defaults left out. Pure; bounded by what may be read of an
// answer. Source: etcd's rpc.proto and kv.proto, as served under /v3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fleet/etcd/store.h"

namespace partita::fleet {

inline constexpr long kKeysOfPage = 400;  // of a range

// The key after all keys that begin with this one: where a range of them ends.
std::string end_of_prefix(std::string prefix);
// Of a place, where it ends; empty: it is one key.
std::string end_of(const std::string& place);

// Keys from the first to before the end (empty: the first alone), as they were at that revision
// (0: now).
std::string range_request(const std::string& first, const std::string& end, long revision);
std::string txn_request(const Transaction& transaction);
std::string grant_request(int seconds);
std::string lease_request(long lease);
// One watch of all these places, in one answer.
std::string watch_request(const Places& places, long after);
std::string compaction_request(long revision);
std::string login_request(const std::string& user, const std::string& password);

struct RangePage {
  Range range;
  bool more = false;  // keys were left out
};
Result<RangePage> parse_range(std::string_view body);
Result<Committed> parse_txn(std::string_view body);
Result<long> parse_granted(std::string_view body);
// Seconds that it has now; 0: it has ended. The answer is one message of a stream.
Result<long> parse_kept_alive(std::string_view body);
Result<std::string> parse_token(std::string_view body);
// What members warn of, by name with commas.
Result<std::string> parse_alarms(std::string_view body);
// A line of a watch: its changes. environment: the watch has ended, and why.
struct WatchLine {
  std::vector<SeenChange> changes;
  long revision = 0;
};
Result<WatchLine> parse_watch_line(std::string_view line);
// What an answer that is none of these says went wrong; its beginning where it is no JSON.
// not_found: what was asked for is not there; denied: who asks must say anew who he is;
// invalid_argument: a revision that is forgotten, or still to come.
Error fault_of(std::string_view body);

}  // namespace partita::fleet
