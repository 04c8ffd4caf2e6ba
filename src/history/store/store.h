// Store: the history of a node in one SQLite file (WAL). Everything that append() has returned is
// there after a kill; a full disk is an Error and leaves the file whole. Bounded: kMaxEvents events
// and the ages of Keep; older metrics are folded into coarser buckets. A file of an earlier schema
// is brought up to date when it is opened; one of a later schema is refused.
// Thread rule: one call at a time per object; several processes may read while one writes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "history/event.h"

namespace partita::history {

inline constexpr long kMaxEvents = 200'000;
inline constexpr int kMaxRows = 1000;  // that one query gives

enum class Access : std::uint8_t { read, write };

struct EventQuery {
  std::optional<long> before = {};  // ids below; for paging
  std::optional<long> after = {};   // ids above
  std::optional<long> change = {};
  std::vector<EventKind> kinds = {};  // empty: all
  std::string subject = {};           // empty: all
  std::optional<std::int64_t> from_ms = {}, to_ms = {};
  int most = 100;         // 1 .. kMaxRows
  bool documents = true;  // false: without attachments
};

struct SeriesQuery {
  std::string metric, subject;
  std::int64_t from_ms = 0, to_ms = 0;
  int most = 500;  // buckets; coarser ones are given where there would be more
};

class Store {
 public:
  // Creates the file (mode 0640) where `access` is write and there is none. bad_input: no database
  // of Partita, damaged, a later schema.
  static Result<Store> open(const std::string& path, Access access);
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  // The event's number. Its id must be 0, its user not empty.
  Result<long> append(const Event& event);
  // A number that no change has had so far.
  Result<long> next_change();
  Result<void> measure(const std::vector<Measured>& values);
  // Folds metrics, forgets what is too old or too much; called now and then by the writer.
  Result<void> tidy(std::int64_t now_ms);

  // Newest first.
  Result<std::vector<Event>> events(const EventQuery& query) const;
  Result<std::optional<Event>> event(long id) const;
  Result<std::vector<Bucket>> series(const SeriesQuery& query) const;
  // Which metrics of which subjects there are.
  Result<std::vector<Measured>> latest() const;

 private:
  struct Database;
  explicit Store(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace partita::history
