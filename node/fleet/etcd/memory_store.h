// MemoryStore: a Store in memory, for tests and simulations; time is what it is told. Leases end
// when nobody kept them alive for their length. Single-threaded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fleet/etcd/store.h"

namespace partita::fleet {

class MemoryStore final : public Store {
 public:
  // Ends the leases that are due. Never goes back.
  void tell_time(std::int64_t now_ms);
  // Watches of revisions up to this one break, as after a compaction.
  void forget(long revision) { forgotten_ = revision; }
  long revision() const { return revision_; }

  Result<Range> range(const std::string& prefix) override;
  Result<Committed> commit(const Transaction& transaction) override;
  Result<long> grant(int seconds) override;
  Result<void> keep_alive(long lease) override;
  Result<void> revoke(long lease) override;
  Result<std::unique_ptr<Watch>> watch(const std::string& prefix, long after) override;

 private:
  class Watching;
  struct Lease {
    std::int64_t length_ms = 0, ends_ms = 0;
  };
  bool holds(const Condition& condition) const;
  void write(const Change& change);
  void end(long lease);

  std::map<std::string, KeyValue> keys_;
  std::map<long, Lease> leases_;
  std::vector<SeenChange> log_;
  std::int64_t now_ms_ = 0;
  long revision_ = 1, last_lease_ = 0, forgotten_ = 0;
};

}  // namespace partita::fleet
