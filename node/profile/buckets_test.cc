#include "profile/buckets.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/rng.h"
#include "base/source_text.h"
#include "profile/csv.h"

namespace partita::profile {
namespace {

// All choices of buckets among the lengths.
double least_padding(const LengthWeights& lengths, int most) {
  std::vector<Length> all;
  for (const auto& [length, weight] : lengths) all.push_back(length);
  double least = 1;
  for (unsigned chosen = 0; chosen < 1U << (all.size() - 1); ++chosen) {
    std::vector<Length> buckets;
    for (std::size_t i = 0; i + 1 < all.size(); ++i)
      if (chosen >> i & 1U) buckets.push_back(all[i]);
    buckets.push_back(all.back());
    if (static_cast<int>(buckets.size()) <= most)
      least = std::min(least, padding_share(lengths, buckets));
  }
  return least;
}

TEST(Buckets, PadLeastOfAllThatThereAre) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    LengthWeights lengths;
    const auto count = 1 + rng.below(10);
    for (std::uint64_t i = 0; i < count; ++i)
      lengths[1 + static_cast<Length>(rng.below(60))] = 0.1 + rng.uniform();
    const int most = 1 + static_cast<int>(rng.below(6));
    const std::vector<Length> buckets = best_buckets(lengths, most);
    EXPECT_LE(static_cast<int>(buckets.size()), most);
    EXPECT_EQ(buckets.back(), lengths.rbegin()->first);
    EXPECT_NEAR(padding_share(lengths, buckets), least_padding(lengths, most), 1e-12);
  }
}

TEST(Buckets, ByHand) {
  const LengthWeights lengths{{1, 1}, {10, 1}, {100, 1}};
  EXPECT_EQ(best_buckets(lengths, 1), (std::vector<Length>{100}));
  EXPECT_EQ(best_buckets(lengths, 2), (std::vector<Length>{10, 100}));  // 1 -> 10 costs 9
  EXPECT_EQ(best_buckets(lengths, 9), (std::vector<Length>{1, 10, 100}));
  EXPECT_DOUBLE_EQ(padding_share(lengths, {10, 100}), 9.0 / 120);
  EXPECT_TRUE(best_buckets({}, 3).empty());
}

// Prompts of the Azure LLM traces, in the order in which they came.
std::vector<Length> azure(const std::string& which) {
  const auto csv = parse_csv(which, source_text("data/published/azure/llm-2023-" + which + ".csv"));
  std::vector<Length> lengths;
  for (const CsvRow& row : csv->rows)
    lengths.push_back(std::stol(row.cells[static_cast<std::size_t>(csv->column("prompt_tokens"))]));
  return lengths;
}

// The goal: 10 % of compute at most, and 1.1 times what is best for all that came.
TEST(Buckets, LearnedFromRealLengths) {
  for (const char* which : {"conv", "code"}) {
    LengthWeights all, own;
    LearnedBuckets learned(16);
    double given = 0, padded = 0;
    const std::vector<Length> lengths = azure(which);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      all[lengths[i]] += 1;
      given += static_cast<double>(lengths[i]);
      padded += static_cast<double>(learned.padded(lengths[i]));
      learned.saw(lengths[i]);
    }
    const double best = padding_share(all, best_buckets(all, 16));
    const double online = 1 - given / padded;
    double anew = 0;  // with the buckets learned in the end
    for (const Length length : lengths) anew += static_cast<double>(learned.padded(length));
    const double last = 1 - given / anew;
    RecordProperty(fmt::format("{}_rows", which), static_cast<int>(lengths.size()));
    RecordProperty(fmt::format("{}_best", which), fmt::format("{:.4f}", best));
    RecordProperty(fmt::format("{}_online", which), fmt::format("{:.4f}", online));
    RecordProperty(fmt::format("{}_last", which), fmt::format("{:.4f}", last));
    EXPECT_LE(online, 0.10) << which;
    EXPECT_LE(online, 1.1 * best) << which;
    EXPECT_LE(last, 1.1 * best) << which;
  }
}

TEST(Buckets, FollowTraffic) {
  LearnedBuckets learned(2);
  Rng rng(3);
  const auto feed = [&](Length a, Length b, int rows) {
    for (int i = 0; i < rows; ++i) learned.saw(rng.below(2) == 0 ? a : b);
  };
  EXPECT_EQ(learned.padded(33), 64);
  feed(33, 300, 300);
  EXPECT_EQ(learned.buckets(), (std::vector<Length>{33, 300}));
  feed(40, 90, 400'000);
  EXPECT_EQ(learned.padded(40), 40);
  EXPECT_EQ(learned.padded(90), 90);
}

TEST(Buckets, WhoFloodsThemCostsOthersAPowerOfTwo) {
  LearnedBuckets learned(4);
  Rng rng(5);
  for (int i = 0; i < 100'000; ++i)
    learned.saw(1 + static_cast<Length>(rng.below(static_cast<std::uint64_t>(kMostLength))));
  EXPECT_LE(learned.buckets().size(), 4U);
  for (const Length length : {1, 5, 31, 100, 1000, 5000})
    EXPECT_LT(learned.padded(length), 2 * length);
  learned.saw(0);
  learned.saw(kMostLength + 1);
}

TEST(Buckets, Names) {
  EXPECT_EQ(length_of("ids=1,128 mask=1,128"), 128);
  EXPECT_EQ(length_of("x2=3,640?,480?"), 640);
  EXPECT_EQ(length_of(""), 0);
  EXPECT_EQ(length_of("x=?"), 0);
  EXPECT_EQ(bucket_name("bert~128").name, "bert");
  EXPECT_EQ(bucket_name("bert~128").bucket, 128);
  for (const char* none : {"bert", "~12", "bert~", "bert~x", "bert~0", "bert~-3"})
    EXPECT_EQ(bucket_name(none).bucket, 0) << none;
  EXPECT_EQ(with_bucket("bert", 128), "bert~128");
}

}  // namespace
}  // namespace partita::profile
