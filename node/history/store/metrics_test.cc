// Buckets against all measurements that went in.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "history/store/store.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::history {
namespace {

constexpr std::int64_t kStart = 1'800'000'000'000;

// Everything that was measured, in whole numbers so that sums are exact.
struct Oracle {
  std::map<std::string, std::vector<Measured>> of_subject;

  Bucket of(const std::string& subject, std::int64_t from, std::int64_t length) const {
    Bucket bucket{from, length};
    double total = 0;
    for (const Measured& one : of_subject.at(subject)) {
      if (one.time_ms < from || one.time_ms > from + std::max<std::int64_t>(length - 1, 0))
        continue;
      bucket.least = bucket.count == 0 ? one.value : std::min(bucket.least, one.value);
      bucket.greatest = bucket.count == 0 ? one.value : std::max(bucket.greatest, one.value);
      total += one.value;
      ++bucket.count;
    }
    if (bucket.count > 0) bucket.mean = total / static_cast<double>(bucket.count);
    return bucket;
  }
};

void tidy_up(Store& store, std::int64_t now) {
  for (int n = 0; n < 30; ++n) ASSERT_TRUE(store.tidy(now));
}

std::vector<Bucket> buckets(const Store& store, const SeriesQuery& query) {
  const auto found = store.series(query);
  EXPECT_TRUE(found) << to_string(found.error());
  if (!found) return {};
  EXPECT_LE(found->size(), static_cast<std::size_t>(query.most));
  for (std::size_t b = 1; b < found->size(); ++b)
    EXPECT_GE((*found)[b].from_ms, (*found)[b - 1].from_ms + (*found)[b - 1].length_ms);
  return *found;
}

TEST(Metrics, BucketsAreExactWhateverWasFolded) {
  const TemporaryFolder folder;
  Store store = *Store::open(folder.file(), Access::write);
  Oracle oracle;
  Rng rng(3);
  std::int64_t now = kStart;
  for (int round = 0; round < test_rounds(40); ++round) {
    std::vector<Measured> batch;
    for (int n = 0; n < 60; ++n) {
      // Some come late, by up to two months.
      const std::int64_t late =
          rng.below(5) == 0 ? static_cast<std::int64_t>(rng.below(60 * kDayMs)) : 0;
      const std::string subject = rng.below(2) == 0 ? "chat" : "";
      const double value = static_cast<double>(rng.below(2000)) - 1000;
      batch.push_back({now - late + static_cast<std::int64_t>(rng.below(600)) * 1000, "rate_rps",
                       subject, value});
      oracle.of_subject[subject].push_back(batch.back());
    }
    ASSERT_TRUE(store.measure(batch));
    now += static_cast<std::int64_t>(rng.below(3 * kDayMs));
    if (rng.below(2) == 0) tidy_up(store, now);
    for (const char* subject : {"chat", ""}) {
      const int most = 1 + static_cast<int>(rng.below(300));
      long count = 0;
      for (const Bucket& bucket : buckets(store, {"rate_rps", subject, 0, now + kDayMs, most})) {
        EXPECT_EQ(bucket, oracle.of(subject, bucket.from_ms, bucket.length_ms));
        count += bucket.count;
      }
      EXPECT_EQ(count, static_cast<long>(oracle.of_subject[subject].size()));
      const std::int64_t from = now - static_cast<std::int64_t>(rng.below(20 * kDayMs));
      const std::int64_t to = from + static_cast<std::int64_t>(rng.below(20 * kDayMs));
      for (const Bucket& bucket : buckets(store, {"rate_rps", subject, from, to, 10'000})) {
        EXPECT_LT(bucket.from_ms, to);
        EXPECT_GE(bucket.from_ms + std::max<std::int64_t>(bucket.length_ms, 1), from);
        EXPECT_EQ(bucket, oracle.of(subject, bucket.from_ms, bucket.length_ms));
      }
    }
  }
}

TEST(Metrics, RawForADayMinutesForAMonthHoursForTwoYears) {
  const TemporaryFolder folder;
  Store store = *Store::open(folder.file(), Access::write);
  const std::int64_t now = kStart / kHourMs * kHourMs;
  std::vector<Measured> all;
  const auto every = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
    for (std::int64_t at = from; at < to; at += step) all.push_back({now - at, "watts", "g", 1});
  };
  every(kMinuteMs, kDayMs, 20 * kSecondMs);
  every(2 * kDayMs, 2 * kDayMs + kHourMs, 20 * kSecondMs);
  every(40 * kDayMs, 40 * kDayMs + 3 * kHourMs, 20 * kSecondMs);
  every(800 * kDayMs, 800 * kDayMs + kHourMs, kMinuteMs);
  ASSERT_TRUE(store.measure(all));
  tidy_up(store, now);
  std::map<std::int64_t, long> lengths, counts;
  for (const Bucket& one : buckets(store, {"watts", "g", 0, now + 1, 10'000})) {
    lengths[one.length_ms] += 1;
    counts[one.length_ms] += one.count;
  }
  EXPECT_EQ(lengths[0], 24 * 180 - 3);
  EXPECT_EQ(counts[kMinuteMs], 180);
  EXPECT_EQ(lengths[kMinuteMs], 61);  // at -2 days exactly begins one of its own
  EXPECT_EQ(counts[kHourMs], 540);
  EXPECT_EQ(lengths[kHourMs], 4);
  EXPECT_EQ(lengths.size(), 3U);  // what is 800 days old is forgotten
}

TEST(Metrics, LatestIsTheNewestOfEach) {
  const TemporaryFolder folder;
  Store store = *Store::open(folder.file(), Access::write);
  ASSERT_TRUE(store.measure({{kStart, "watts", "b", 5},
                             {kStart - 5 * kDayMs, "watts", "a", 7},
                             {kStart - 9, "watts", "b", 9},
                             {kStart - 3000 * kDayMs, "gpus", "", 1}}));
  const std::vector<Measured> both{{kStart - 5 * kDayMs, "watts", "a", 7},
                                   {kStart, "watts", "b", 5}};
  auto all = store.latest().value();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].metric, "gpus");
  tidy_up(store, kStart);  // series that are forgotten are no longer listed
  all = store.latest().value();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].subject, "a");
  EXPECT_EQ(all[0].value, 7);
  EXPECT_EQ(all[0].time_ms, (kStart - 5 * kDayMs) / kMinuteMs * kMinuteMs);
  EXPECT_EQ(all[1], both[1]);
}

TEST(Metrics, WhatIsNoMeasurementIsRefusedWithAllOfItsBatch) {
  const TemporaryFolder folder;
  Store store = *Store::open(folder.file(), Access::write);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Measured& wrong : {Measured{1, "watts", "", nan}, Measured{1, "watts", "", 1e101},
                                Measured{-1, "watts", "", 1}, Measured{1, "", "", 1},
                                Measured{1, "watts", std::string(300, 's'), 1}}) {
    const auto refused = store.measure({{1, "watts", "", 1}, wrong});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::bad_input);
  }
  EXPECT_TRUE(store.latest().value().empty());
  EXPECT_FALSE(store.series({"watts", "", 0, 1, 0}));
}

TEST(Metrics, AFileThatIsTooLargeFoldsSooner) {
  const TemporaryFolder folder;
  Keep keep;
  keep.bytes = 1 << 20;
  Store store = *Store::open(folder.file(), Access::write, keep);
  long count = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<Measured> batch;
    for (int n = 0; n < 2000; ++n)
      batch.push_back({kStart + (round * 2000 + n) * 500, "watts", "g", double(n)});
    // Where there is no room, tidying makes some.
    auto taken = store.measure(batch);
    for (int tries = 0; !taken && tries < 20; ++tries) {
      ASSERT_TRUE(store.tidy(batch.back().time_ms));
      taken = store.measure(batch);
    }
    ASSERT_TRUE(taken) << to_string(taken.error());
    count += 2000;
    ASSERT_TRUE(store.tidy(batch.back().time_ms));
  }
  long kept = 0;
  for (const Bucket& one : buckets(store, {"watts", "g", 0, kStart * 2, 1000})) kept += one.count;
  EXPECT_EQ(kept, count);  // coarser, not fewer
  EXPECT_LT(std::filesystem::file_size(folder.file()),
            static_cast<std::uintmax_t>(keep.bytes) * 5 / 4 + 65536);
}

}  // namespace
}  // namespace partita::history
