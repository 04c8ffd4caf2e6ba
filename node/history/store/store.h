// Store: the history of a node in one SQLite file (WAL). Everything that append() has returned is
// there after a kill and after a crash of the machine; a full disk is an Error and leaves the file
// whole. Bounded by Keep; older metrics are folded into coarser buckets. A file of an earlier
// schema is brought up to date when it is opened for writing; one of a later schema is refused.
// Thread rule: one call at a time per object; other processes may read, and write in turn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "history/event.h"

namespace partita::history {

inline constexpr long kMaxEvents = 200'000;
inline constexpr int kMaxRows = 1000;                      // that one query gives
inline constexpr std::size_t kMaxAnswerBytes = 32u << 20;  // of documents that one query gives
inline constexpr long kMaxSeries = 100'000;
inline constexpr int kSchemaVersion = 3;
inline constexpr std::int64_t kSecondMs = 1000, kMinuteMs = 60 * kSecondMs;
inline constexpr std::int64_t kHourMs = 60 * kMinuteMs, kDayMs = 24 * kHourMs;

// How much is kept. Where `bytes` is passed, tidy() takes documents off the oldest events and folds
// metrics earlier; above 5/4 of it nothing more is taken in.
struct Keep {
  long events = kMaxEvents;
  std::int64_t events_ms = 731 * kDayMs;
  std::int64_t raw_ms = kDayMs, minutes_ms = 31 * kDayMs, hours_ms = 731 * kDayMs;
  std::int64_t bytes = std::int64_t{512} << 20;
};

enum class Access : std::uint8_t { read, write };

struct EventQuery {
  std::optional<long> before = {};  // ids below; for paging
  std::optional<long> after = {};   // ids above
  std::optional<long> change = {};
  std::vector<EventKind> kinds = {};                     // empty: all
  std::string subject = {};                              // empty: all
  std::string user = {};                                 // empty: all
  std::optional<std::int64_t> from_ms = {}, to_ms = {};  // to_ms itself is left out
  int most = 100;                                        // 1 .. kMaxRows
  bool documents = true;                                 // false: without attachments
};

struct SeriesQuery {
  std::string metric, subject;
  std::int64_t from_ms = 0, to_ms = 0;  // to_ms itself is left out
  int most = 500;                       // buckets; coarser ones are given where there would be more
};

class Store {
 public:
  // Creates the file (mode 0640) where `access` is write and there is none. bad_input: no database
  // of Partita, damaged, a later schema.
  static Result<Store> open(const std::string& path, Access access, const Keep& keep = {});
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  // The event's number. Its id must be 0, its user not empty; it is kept as fitted() makes it.
  Result<long> append(const Event& event);
  // All of them in this order, or none; the number of the last.
  Result<long> append_all(const std::vector<Event>& events);
  // The highest number that a change of this file has had; control/host/change_numbers.h knows of
  // those of other files, and whoever numbers changes asks there.
  Result<long> last_change() const;
  // All or none: bad_input for values that are no numbers, limit above kMaxSeries.
  Result<void> measure(const std::vector<Measured>& values);
  // Folds metrics, forgets what is too old or too much. To be called every minute or so by the
  // writer: one call does a bounded piece (some 10 ms) and the next goes on where it ended.
  Result<void> tidy(std::int64_t now_ms);

  // Newest first; fewer than `most` where their documents come to kMaxAnswerBytes.
  Result<std::vector<Event>> events(const EventQuery& query) const;
  Result<std::optional<Event>> event(long id) const;
  // Oldest first, without overlap. A single measurement has the length 0.
  Result<std::vector<Bucket>> series(const SeriesQuery& query) const;
  // Which metrics of which subjects there are, by name, each with its newest value.
  Result<std::vector<Measured>> latest() const;

 private:
  struct Database;
  explicit Store(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;  // never null but after a move
};

// Whether an error of a store says that the file itself is damaged, or no history at all: to set it
// aside and begin anew helps. Not so for one of a later Partita.
bool is_damage(const Error& error);

// "history.db" in a state directory.
std::string history_path(const std::string& state_dir);

}  // namespace partita::history
