// Measured numbers: taken in, and given as buckets.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "history/store/database.h"

namespace partita::history {
namespace {

constexpr std::array<std::int64_t, 3> kLengths{0, kMinuteMs, kHourMs};  // of a bucket, by level
constexpr std::array<std::int64_t, 16> kSteps{
    kSecondMs,      10 * kSecondMs, 30 * kSecondMs, kMinuteMs,    5 * kMinuteMs, 15 * kMinuteMs,
    30 * kMinuteMs, kHourMs,        3 * kHourMs,    6 * kHourMs,  12 * kHourMs,  kDayMs,
    7 * kDayMs,     30 * kDayMs,    100 * kDayMs,   1000 * kDayMs};

Result<void> check_value(const Measured& value) {
  if (value.metric.empty()) return bad_input("", "a measurement needs the name of its metric");
  if (value.metric.size() > kMaxWhoBytes || value.subject.size() > kMaxWhoBytes)
    return bad_input("", fmt::format("names of metrics have at most {} bytes", kMaxWhoBytes));
  if (!(std::abs(value.value) <= kMaxValue))
    return bad_input("", fmt::format("{} of '{}' is {}, which is no measurement", value.metric,
                                     value.subject, value.value));
  if (value.time_ms < 0 || value.time_ms > kMaxTimeMs)
    return bad_input("", fmt::format("{} ms is no time of a measurement", value.time_ms));
  return {};
}

// One bucket with its sum, which stays exact where the mean would not.
struct Summed {
  Bucket bucket;
  double total = 0;
};

void merge(Summed& into, const Summed& from) {
  Bucket& bucket = into.bucket;
  const std::int64_t end =
      std::max(bucket.from_ms + bucket.length_ms, from.bucket.from_ms + from.bucket.length_ms);
  bucket.from_ms = std::min(bucket.from_ms, from.bucket.from_ms);
  bucket.length_ms = end - bucket.from_ms;
  bucket.count += from.bucket.count;
  bucket.least = std::min(bucket.least, from.bucket.least);
  bucket.greatest = std::max(bucket.greatest, from.bucket.greatest);
  into.total += from.total;
}

// Those that overlap, or lie in one step, become one.
std::vector<Summed> merged(const std::vector<Summed>& rows, std::int64_t step) {
  std::vector<Summed> result;
  for (Summed row : rows) {
    if (step > 0) {
      const std::int64_t from = row.bucket.from_ms / step * step;
      const std::int64_t end = row.bucket.from_ms + row.bucket.length_ms;
      row.bucket.from_ms = from;
      row.bucket.length_ms = std::max(step, end - from);
    }
    const bool inside =
        !result.empty() &&
        (row.bucket.from_ms == result.back().bucket.from_ms ||
         row.bucket.from_ms < result.back().bucket.from_ms + result.back().bucket.length_ms);
    if (inside) {
      merge(result.back(), row);
    } else {
      result.push_back(row);
    }
  }
  return result;
}

// The rows of all levels that reach into the range, by time.
Result<std::vector<Summed>> rows_of(const SqlFile& file, const SeriesQuery& query) {
  std::vector<Summed> all;
  Sql rows(file,
           "SELECT from_ms, count, total, coalesce(least, total), coalesce(greatest, total) "
           "FROM buckets WHERE level = ?1 AND series = (SELECT id FROM series WHERE metric = ?2 "
           "AND subject = ?3) AND from_ms > ?4 AND from_ms < ?5");
  for (std::size_t level = 0; level < kLengths.size(); ++level) {
    const std::int64_t length = kLengths[level];
    const std::int64_t before = std::max<std::int64_t>(query.from_ms, 0) - std::max(length, {1});
    rows.with(static_cast<std::int64_t>(level), query.metric, query.subject, before, query.to_ms);
    while (rows.row())
      all.push_back({{rows.whole(0), length, rows.whole(1), 0, rows.number(3), rows.number(4)},
                     rows.number(2)});
    if (auto done = rows.done(); !done) return failed(done.error());
  }
  // Of two that begin at once the longer one comes first, so that it takes in the other.
  std::ranges::sort(all, {}, [](const Summed& one) {
    return std::pair(one.bucket.from_ms, -one.bucket.length_ms);
  });
  return all;
}

}  // namespace

Result<void> Store::measure(const std::vector<Measured>& values) {
  for (const Measured& value : values) {
    if (auto right = check_value(value); !right) return right;
  }
  const SqlFile& file = database_->file;
  Transaction transaction(file);
  TRY(transaction.begin());
  Sql find(file, "SELECT id FROM series WHERE metric = ?1 AND subject = ?2");
  Sql add(file, "INSERT INTO series(metric, subject) VALUES(?1, ?2)");
  Sql insert(file,
             "INSERT INTO buckets(level, series, from_ms, count, total) VALUES(0, ?1, ?2, 1, ?3) "
             "ON CONFLICT DO UPDATE SET count = count + 1,"
             "  least = min(coalesce(least, total), excluded.total),"
             "  greatest = max(coalesce(greatest, total), excluded.total),"
             "  total = total + excluded.total");
  for (const Measured& value : values) {
    std::int64_t series = find.with(value.metric, value.subject).row() ? find.whole(0) : 0;
    TRY(find.done());
    if (series == 0) {
      const auto count = TRY(file.ask("SELECT count(*) FROM series"));
      if (count >= kMaxSeries)
        return failed({ErrorCode::limit,
                       fmt::format("holds {} series, which is the limit; '{}' of '{}' would be one "
                                   "more",
                                   count, value.metric, value.subject),
                       file.path()});
      TRY(add.with(value.metric, value.subject).done());
      series = file.last_row();
    }
    if (auto done = insert.with(series, value.time_ms, value.value).done(); !done) return done;
  }
  return transaction.commit();
}

Result<std::vector<Bucket>> Store::series(const SeriesQuery& query) const {
  if (query.most < 1 || query.most > 10 * kMaxRows)
    return bad_input(
        "", fmt::format("one query gives 1 to {} buckets, not {}", 10 * kMaxRows, query.most));
  Transaction transaction(database_->file);
  TRY(transaction.begin(false));
  const auto rows = TRY(rows_of(database_->file, query));
  const auto most = static_cast<std::size_t>(query.most);
  std::vector<Summed> result = merged(rows, 0);
  for (std::size_t step = 0; result.size() > most && step < kSteps.size(); ++step)
    result = merged(rows, kSteps[step]);
  while (result.size() > most) {  // of thousands of years
    merge(result[result.size() - 2], result.back());
    result.pop_back();
  }
  std::vector<Bucket> buckets;
  for (Summed& one : result) {
    one.bucket.mean = one.total / static_cast<double>(one.bucket.count);
    // Rounding of the sum must not lead out of the range.
    one.bucket.mean = std::clamp(one.bucket.mean, one.bucket.least, one.bucket.greatest);
    buckets.push_back(one.bucket);
  }
  return buckets;
}

Result<std::vector<Measured>> Store::latest() const {
  const SqlFile& file = database_->file;
  Transaction transaction(file);
  TRY(transaction.begin(false));
  Sql all(file, "SELECT metric, subject, id FROM series ORDER BY metric, subject");
  Sql newest(file,
             "SELECT from_ms, total / count FROM buckets WHERE level = ?1 AND series = ?2 "
             "ORDER BY from_ms DESC LIMIT 1");
  std::vector<Measured> values;
  while (all.row()) {
    std::optional<Measured> found;
    for (std::int64_t level = 0; level < 3; ++level) {
      if (newest.with(level, all.whole(2)).row() && (!found || newest.whole(0) > found->time_ms))
        found = {newest.whole(0), all.text(0), all.text(1), newest.number(1)};
      if (auto done = newest.done(); !done) return failed(done.error());
    }
    if (found) values.push_back(*found);
  }
  TRY(all.done());
  return values;
}

}  // namespace partita::history
