// Store: the door to what a fleet agrees on: keys with values and versions, changed in
// transactions; leases, whose keys go when nobody keeps them alive; watches. What etcd version 3
// promises, and no more. Implementations pass the suite of store_conformance.h.
// A place that ends with '/' is all keys that begin so; any other is that one key. Places of one
// call are apart: none holds another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::fleet {

inline constexpr std::size_t kMostOperations = 128;  // of a transaction, as etcd's default
inline constexpr std::size_t kMostValueBytes =
    1'500'000;  // with its key; etcd's default is 1.5 MiB

using Places = std::vector<std::string>;
inline bool is_at(std::string_view key, std::string_view place) {
  return place.ends_with('/') ? key.starts_with(place) : key == place;
}

struct KeyValue {
  std::string key, value;
  long created = 0, version = 0;  // revisions of the store
  long lease = 0;                 // 0: none
  bool operator==(const KeyValue&) const = default;
};

struct Range {
  std::vector<KeyValue> all;  // by key
  long revision = 0;          // of the store, when it was read
};

// Holds where the key has been created (or changed last) by that revision; 0: it is not there.
struct Condition {
  enum class What { created, version };
  What what = What::version;
  std::string key;
  long revision = 0;
};

// No value: the key goes.
struct Change {
  std::string key;
  std::optional<std::string> value;
  long lease = 0;
};

struct Transaction {
  std::vector<Condition> conditions;  // all must hold
  std::vector<Change> changes;        // of different keys
};

struct Committed {
  bool done = false;  // false: a condition did not hold, and nothing was changed
  long revision = 0;  // of the store
};

struct SeenChange {
  std::string key;
  std::optional<std::string> value;  // none: it is gone
  long version = 0;
  bool operator==(const SeenChange&) const = default;
};

// Changes since a revision, in order within each place. Broken by an error: read the range again,
// and watch anew.
class Watch {
 public:
  virtual ~Watch() = default;
  // What came since the last call; never waits.
  virtual Result<std::vector<SeenChange>> take() = 0;
};

class Store {
 public:
  virtual ~Store() = default;
  // What is at these places, all as of one revision.
  virtual Result<Range> range(const Places& places) = 0;
  // The same, told one by one once all are read, where nobody keeps them; the store's revision. The
  // same stamp is the same key with the same value, as long as this store lives; 0: it keeps none.
  using Hear = std::function<void(const KeyValue&, std::uint64_t stamp)>;
  virtual Result<long> read(const Places& places, const Hear& hear) {
    const auto all = range(places);
    if (!all) return failed(all.error());
    for (const KeyValue& one : all->all) hear(one, 0);
    return all->revision;
  }
  // An error leaves open whether it was done.
  virtual Result<Committed> commit(const Transaction& transaction) = 0;
  virtual Result<long> grant(int seconds) = 0;
  // not_found: it has ended.
  virtual Result<void> keep_alive(long lease) = 0;
  virtual Result<void> revoke(long lease) = 0;
  // Of these places, after that revision.
  virtual Result<std::unique_ptr<Watch>> watch(const Places& places, long after) = 0;
  // What was before that revision is forgotten, of all keys of all fleets: who watches from there
  // reads anew. Nothing where it is forgotten already.
  virtual Result<void> compact(long revision) = 0;
};

}  // namespace partita::fleet
