// What is too old or too much goes, a bounded piece at a time.
#include <algorithm>

#include "history/store/database.h"

namespace partita::history {
namespace {

constexpr std::int64_t kPieceEvents = 2000, kPieceRows = 10'000, kPieceSeries = 500;
constexpr std::int64_t kPieceDocuments = 200, kPiecePages = 500;
constexpr int kMostPressure = 10;

// Deletes the events up to this id, with what hangs on them.
Result<void> forget_events(const SqlFile& file, std::int64_t last) {
  Sql count(file,
            "UPDATE counters SET value = value - (SELECT coalesce(sum(length(CAST(text AS BLOB))), "
            "0) FROM documents WHERE event <= ?1) WHERE name = 'document_bytes'");
  TRY(count.with(last).done());
  Sql documents(file, "DELETE FROM documents WHERE event <= ?1");
  TRY(documents.with(last).done());
  Sql events(file, "DELETE FROM events WHERE id <= ?1");
  return events.with(last).done();
}

// The last of the oldest events that are to go; 0: none.
Result<std::int64_t> last_to_forget(const SqlFile& file, const Keep& keep, std::int64_t now_ms) {
  Sql above(file, "SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?1");
  const std::int64_t surplus =
      above.with(static_cast<std::int64_t>(keep.events)).row() ? above.whole(0) : 0;
  TRY(above.done());
  std::int64_t last = 0;
  Sql oldest(file, "SELECT id, time_ms FROM events ORDER BY id LIMIT ?1");
  oldest.with(kPieceEvents);
  while (oldest.row()) {
    const bool goes = oldest.whole(0) <= surplus || oldest.whole(1) < now_ms - keep.events_ms;
    if (!goes) break;
    last = oldest.whole(0);
  }
  TRY(oldest.done());
  return last;
}

// Takes the documents off the oldest events until so many bytes are gone.
Result<void> forget_documents(const SqlFile& file, std::int64_t bytes) {
  Sql oldest(file,
             "SELECT event, sum(length(CAST(text AS BLOB))) FROM documents GROUP BY event "
             "ORDER BY event LIMIT ?1");
  oldest.with(kPieceDocuments);
  std::int64_t last = 0, gone = 0;
  while (gone < bytes && oldest.row()) {
    last = oldest.whole(0);
    gone += oldest.whole(1);
  }
  TRY(oldest.done());
  Sql documents(file, "DELETE FROM documents WHERE event <= ?1");
  TRY(documents.with(last).done());
  Sql count(file, "UPDATE counters SET value = value - ?1 WHERE name = 'document_bytes'");
  return count.with(gone).done();
}

// Rows of a level that are older than `before`, at most so many; into buckets of `length` one level
// up, or nowhere where that is 0. Answers how many there were.
Result<std::int64_t> fold(const SqlFile& file, std::int64_t series, std::int64_t level,
                          std::int64_t length, std::int64_t before) {
  if (length > 0) before = before / length * length;
  Sql bound(file,
            "SELECT from_ms FROM buckets WHERE level = ?1 AND series = ?2 AND from_ms < ?3 "
            "ORDER BY from_ms LIMIT 1 OFFSET ?4");
  if (bound.with(level, series, before, kPieceRows).row()) before = bound.whole(0);
  TRY(bound.done());
  if (length > 0) {
    Sql up(file,
           "INSERT INTO buckets SELECT ?1 + 1, series, from_ms / ?4 * ?4, sum(count), sum(total),"
           "  min(coalesce(least, total)), max(coalesce(greatest, total)) FROM buckets"
           "  WHERE level = ?1 AND series = ?2 AND from_ms < ?3 GROUP BY from_ms / ?4 "
           "ON CONFLICT DO UPDATE SET count = count + excluded.count,"
           "  total = total + excluded.total,"
           "  least = min(coalesce(least, total), excluded.least),"
           "  greatest = max(coalesce(greatest, total), excluded.greatest)");
    if (auto done = up.with(level, series, before, length).done(); !done)
      return failed(done.error());
  }
  Sql away(file, "DELETE FROM buckets WHERE level = ?1 AND series = ?2 AND from_ms < ?3");
  TRY(away.with(level, series, before).done());
  return file.ask("SELECT changes()");
}

// All levels of one series; a series with nothing left goes, too.
Result<std::int64_t> fold_series(const SqlFile& file, std::int64_t series, const Keep& keep,
                                 std::int64_t now_ms) {
  std::int64_t rows = 0;
  const std::int64_t ages[] = {keep.raw_ms, keep.minutes_ms, keep.hours_ms};
  const std::int64_t lengths[] = {kMinuteMs, kHourMs, 0};
  for (int level = 0; level < 3; ++level) {
    const auto folded = TRY(
        fold(file, series, level, lengths[level], std::max<std::int64_t>(now_ms - ages[level], 0)));
    rows += folded;
  }
  Sql empty(file,
            "DELETE FROM series WHERE id = ?1"
            "  AND NOT EXISTS (SELECT 1 FROM buckets WHERE level = 0 AND series = ?1)"
            "  AND NOT EXISTS (SELECT 1 FROM buckets WHERE level = 1 AND series = ?1)"
            "  AND NOT EXISTS (SELECT 1 FROM buckets WHERE level = 2 AND series = ?1)");
  TRY(empty.with(series).done());
  return rows;
}

// Goes over the series from `next` on until a piece is done; answers where to go on.
Result<std::int64_t> fold_piece(const SqlFile& file, std::int64_t next, const Keep& keep,
                                std::int64_t now_ms) {
  std::vector<std::int64_t> ids;
  Sql some(file, "SELECT id FROM series WHERE id >= ?1 ORDER BY id LIMIT ?2");
  some.with(next, kPieceSeries);
  while (some.row()) ids.push_back(some.whole(0));
  TRY(some.done());
  std::int64_t rows = 0;
  for (const std::int64_t id : ids) {
    const auto folded = TRY(fold_series(file, id, keep, now_ms));
    rows += folded;
    if (rows >= kPieceRows) return folded >= kPieceRows ? id : id + 1;
  }
  return ids.size() < static_cast<std::size_t>(kPieceSeries) ? 0 : ids.back() + 1;
}

Result<std::int64_t> used_bytes(const SqlFile& file) {
  const auto pages = TRY(file.ask("PRAGMA page_count"));
  const auto unused = TRY(file.ask("PRAGMA freelist_count"));
  const auto size = TRY(file.ask("PRAGMA page_size"));
  return (pages - unused) * size;
}

// Ages halved as often as the size of the file asks for.
Keep pressed(Keep keep, int pressure) {
  keep.raw_ms >>= pressure;
  keep.minutes_ms >>= pressure;
  keep.hours_ms >>= pressure;
  return keep;
}

// Where the file is too large: documents where they are most of it, else metrics sooner, and in the
// end the oldest events. Answers the new pressure.
Result<int> relieve(const SqlFile& file, const Keep& keep, int pressure) {
  const auto used = TRY(used_bytes(file));
  if (used <= keep.bytes) return used < keep.bytes / 4 * 3 ? std::max(pressure - 1, 0) : pressure;
  const auto documents = TRY(file.ask("SELECT value FROM counters WHERE name = 'document_bytes'"));
  if (documents > used / 2) {
    TRY(forget_documents(file, used - keep.bytes));
    return pressure;
  }
  if (pressure < kMostPressure) return pressure + 1;
  Sql oldest(file, "SELECT id FROM events ORDER BY id LIMIT 1 OFFSET ?1");
  const std::int64_t last = oldest.with(kPieceEvents).row() ? oldest.whole(0) : 0;
  TRY(oldest.done());
  TRY(forget_events(file, last));
  return pressure;
}

// Gives pages that are not used back to the disk, where they are more than a tenth.
Result<void> shrink(const SqlFile& file) {
  const auto pages = TRY(file.ask("PRAGMA page_count"));
  const auto unused = TRY(file.ask("PRAGMA freelist_count"));
  if (unused * 10 < pages) return {};
  const std::string some = "PRAGMA incremental_vacuum(" + std::to_string(kPiecePages) + ")";
  return file.run(some.c_str());
}

}  // namespace

Result<void> Store::tidy(std::int64_t now_ms) {
  const SqlFile& file = database_->file;
  Transaction transaction(file);
  TRY(transaction.begin());
  const auto last = TRY(last_to_forget(file, database_->keep, now_ms));
  if (last > 0) {
    if (auto done = forget_events(file, last); !done) return done;
  }
  const auto pressure = TRY(relieve(file, database_->keep, database_->pressure));
  const auto next =
      TRY(fold_piece(file, database_->next_series, pressed(database_->keep, pressure), now_ms));
  TRY(transaction.commit());
  database_->pressure = pressure;
  database_->next_series = next;
  return shrink(file);
}

}  // namespace partita::history
