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
  // Watches of revisions up to this one break, as after a compaction; 0: all are known again.
  void forget(long revision) { forgotten_ = revision; }
  long revision() const { return revision_; }

  Result<Range> range(const Places& places) override;
  Result<long> read(const Places& places, const Hear& hear) override;
  Result<Committed> commit(const Transaction& transaction) override;
  Result<long> grant(int seconds) override;
  Result<void> keep_alive(long lease) override;
  Result<void> revoke(long lease) override;
  Result<std::unique_ptr<Watch>> watch(const Places& places, long after) override;
  Result<void> compact(long revision) override;

 private:
  class Watching;
  struct Lease {
    std::int64_t length_ms = 0, ends_ms = 0;
  };
  bool holds(const Condition& condition);
  void write(const Change& change);
  void end(long lease);

  struct Held : KeyValue {
    std::uint64_t stamp = 0;
  };
  // Where the key is, or would be.
  std::vector<Held>::iterator seat_of(const std::string& key);
  Held* find(const std::string& key);

  std::vector<Held> keys_;  // in their order: they are read far more often than they come
  std::map<long, Lease> leases_;
  std::vector<SeenChange> log_;
  std::int64_t now_ms_ = 0, first_end_ms_ = 0;  // no lease ends before
  long revision_ = 1, last_lease_ = 0, forgotten_ = 0;
  std::uint64_t last_stamp_ = 0;
};

}  // namespace partita::fleet
