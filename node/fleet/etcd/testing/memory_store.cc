#include "fleet/etcd/testing/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace partita::fleet {
namespace {

tl::unexpected<Error> no_lease(long lease) {
  return failed({ErrorCode::not_found, fmt::format("there is no lease {}", lease), ""});
}

}  // namespace

class MemoryStore::Watching final : public Watch {
 public:
  Watching(const MemoryStore& store, Places places, long after)
      : store_(store),
        places_(std::move(places)),
        after_(after),
        next_(static_cast<std::size_t>(
            std::ranges::upper_bound(store.log_, after, {}, &SeenChange::version) -
            store.log_.begin())) {}

  Result<std::vector<SeenChange>> take() override {
    if (after_ < store_.forgotten_)
      return environment_error("", "the changes that are watched for are forgotten");
    std::vector<SeenChange> seen;
    for (; next_ < store_.log_.size(); ++next_)
      if (const SeenChange& one = store_.log_[next_];
          one.version > after_ && std::ranges::any_of(places_, [&](const std::string& place) {
            return is_at(one.key, place);
          }))
        seen.push_back(one);
    after_ = store_.revision_;
    return seen;
  }

 private:
  const MemoryStore& store_;
  Places places_;
  long after_;
  std::size_t next_;  // in the log
};

void MemoryStore::tell_time(std::int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);
  if (now_ms_ < first_end_ms_) return;
  std::vector<long> due;
  first_end_ms_ = std::numeric_limits<std::int64_t>::max();
  for (const auto& [id, lease] : leases_)
    if (lease.ends_ms <= now_ms_)
      due.push_back(id);
    else
      first_end_ms_ = std::min(first_end_ms_, lease.ends_ms);
  for (const long id : due) end(id);
}

std::vector<MemoryStore::Held>::iterator MemoryStore::seat_of(const std::string& key) {
  return std::ranges::lower_bound(keys_, key, {}, &KeyValue::key);
}

MemoryStore::Held* MemoryStore::find(const std::string& key) {
  const auto place = seat_of(key);
  return place != keys_.end() && place->key == key ? &*place : nullptr;
}

bool MemoryStore::holds(const Condition& condition) {
  const Held* found = find(condition.key);
  if (found == nullptr) return condition.revision == 0;
  return condition.revision ==
         (condition.what == Condition::What::created ? found->created : found->version);
}

// At the revision of the store.
void MemoryStore::write(const Change& change) {
  auto place = seat_of(change.key);
  const bool is_there = place != keys_.end() && place->key == change.key;
  if (!change.value) {
    if (!is_there) return;
    keys_.erase(place);
    log_.push_back({change.key, {}, revision_});
    return;
  }
  if (!is_there) place = keys_.insert(place, Held{});
  Held& key = *place;
  key.stamp = ++last_stamp_;
  if (key.created == 0) key.created = revision_;
  key.key = change.key;
  key.value = *change.value;
  key.version = revision_;
  key.lease = change.lease;
  log_.push_back({change.key, change.value, revision_});
}

void MemoryStore::end(long lease) {
  leases_.erase(lease);
  std::vector<std::string> gone;
  for (const Held& one : keys_)
    if (one.lease == lease) gone.push_back(one.key);
  if (gone.empty()) return;
  ++revision_;
  for (const std::string& name : gone) write({name, {}, 0});
}

Result<Range> MemoryStore::range(const Places& places) {
  Range range{{}, revision_};
  static_cast<void>(read(places, [&](const KeyValue& one, auto) { range.all.push_back(one); }));
  return range;
}

Result<long> MemoryStore::read(const Places& places, const Hear& hear) {
  Places in_order = places;
  std::ranges::sort(in_order);
  for (const std::string& place : in_order)
    for (auto one = seat_of(place); one != keys_.end() && is_at(one->key, place); ++one)
      hear(*one, one->stamp);
  return revision_;
}

Result<Committed> MemoryStore::commit(const Transaction& transaction) {
  if (transaction.conditions.size() > kMostOperations ||
      transaction.changes.size() > kMostOperations)
    return failed({ErrorCode::invalid_argument, "too many operations in a transaction", ""});
  for (const Change& change : transaction.changes)
    if (change.lease != 0 && !leases_.contains(change.lease)) return no_lease(change.lease);
  if (!std::ranges::all_of(transaction.conditions,
                           [&](const Condition& one) { return holds(one); }))
    return Committed{false, revision_};
  const bool changes = std::ranges::any_of(transaction.changes, [&](const Change& one) {
    return one.value || find(one.key) != nullptr;
  });
  if (changes) ++revision_;
  for (const Change& change : transaction.changes) write(change);
  return Committed{true, revision_};
}

Result<long> MemoryStore::grant(int seconds) {
  const std::int64_t length = std::int64_t{seconds} * 1000;
  leases_[++last_lease_] = {length, now_ms_ + length};
  first_end_ms_ = std::min(first_end_ms_, now_ms_ + length);
  return last_lease_;
}

Result<void> MemoryStore::keep_alive(long lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return no_lease(lease);
  found->second.ends_ms = now_ms_ + found->second.length_ms;
  return {};
}

Result<void> MemoryStore::revoke(long lease) {
  if (!leases_.contains(lease)) return no_lease(lease);
  end(lease);
  return {};
}

Result<std::unique_ptr<Watch>> MemoryStore::watch(const Places& places, long after) {
  return std::make_unique<Watching>(*this, places, after);
}

Result<void> MemoryStore::compact(long revision) {
  if (revision > revision_)
    return environment_error("", fmt::format("revision {} is still to come", revision));
  forgotten_ = std::max(forgotten_, revision);
  return {};
}

}  // namespace partita::fleet
