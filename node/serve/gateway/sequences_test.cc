// Sequences through the core: they stay with their worker, in order, and end with it.
#include <gtest/gtest.h>

#include "serve/gateway/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using test::kMs;
using test::TestWorker;

class Sequences : public CoreTest {
 protected:
  std::unique_ptr<TestWorker> stateful(const std::string& device) {
    return std::make_unique<TestWorker>(*loop_, link_path(directory_),
                                        "/state/workers.json:" + device + ":0", kMs,
                                        std::optional<std::vector<CurvePoint>>(), true);
  }
  std::shared_ptr<Asked> step(std::uint64_t sequence, bool begins = false, bool ends = false,
                              const KeyLimits* key = nullptr, std::string_view client = {}) {
    RequestHead head;
    head.sequence = sequence;
    head.sequence_begins = begins;
    head.sequence_ends = ends;
    head.limits = key;
    head.client = client;
    return ask(static_cast<float>(sequence), 1, head);
  }
  bool done(const std::vector<std::shared_ptr<Asked>>& all) {
    return until([&] { return std::ranges::all_of(all, &Asked::ended); });
  }
};

TEST_F(Sequences, StayWithTheirWorkerInOrder) {
  const auto one = stateful("d"), two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  std::vector<std::shared_ptr<Asked>> all;
  for (int i = 0; i < 10; ++i)
    for (std::uint64_t sequence = 1; sequence <= 6; ++sequence)
      all.push_back(step(sequence, i == 0, i == 9));
  ASSERT_TRUE(done(all));
  for (std::size_t i = 0; i < all.size(); ++i) expect_twice(*all[i], static_cast<float>(i % 6 + 1));
  std::set<std::uint64_t> mine, others;
  for (const SlotStep& seen : one->steps) mine.insert(seen.sequence);
  for (const SlotStep& seen : two->steps) others.insert(seen.sequence);
  EXPECT_EQ(mine.size(), 3U);  // the one that has the fewest
  EXPECT_EQ(others.size(), 3U);
  for (const std::uint64_t sequence : mine) {
    EXPECT_FALSE(others.contains(sequence));
    std::vector<SlotStep> own;
    std::ranges::copy_if(one->steps, std::back_inserter(own),
                         [&](const SlotStep& seen) { return seen.sequence == sequence; });
    ASSERT_EQ(own.size(), 10U);
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i].begins, i == 0);
      EXPECT_EQ(own[i].ends, i == 9);
    }
  }
  EXPECT_EQ(std::ranges::max(one->together), 3U) << "steps of different sequences run together";
  EXPECT_EQ(metric("partita_sequences{service=\"s\"}"), 0);
}

TEST_F(Sequences, ThatWereNotBegunAreRefused) {
  const auto one = stateful("d");
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(step(7)->denial->kind, Denial::Kind::bad_request);
  EXPECT_EQ(step(0, true)->denial->kind, Denial::Kind::bad_request);
  const auto begun = step(7, true);
  ASSERT_TRUE(done({begun}));
  EXPECT_FALSE(begun->denial);
  const auto again = step(7, true), next = step(7, false, true);
  ASSERT_TRUE(done({again, next}));
  EXPECT_FALSE(next->denial);
  EXPECT_NE(one->steps[0].sequence, one->steps[1].sequence) << "begun again, it is another one";
  EXPECT_EQ(one->steps[1].sequence, one->steps[2].sequence);
  EXPECT_EQ(step(7)->denial->kind, Denial::Kind::bad_request) << "it has ended";
}

TEST_F(Sequences, OfTwoKeysAreTwo) {
  const auto one = stateful("d");
  ASSERT_TRUE(until_ready(1));
  const KeyLimits key;
  const auto a = step(7, true, false, &key, "token 1"), b = step(7, true, false, &key, "token 2");
  const auto c = step(7, false, false, &key, "token 1");
  ASSERT_TRUE(done({a, b, c}));
  ASSERT_EQ(one->steps.size(), 3U);
  std::map<std::uint64_t, int> steps;
  for (const SlotStep& seen : one->steps) ++steps[seen.sequence];
  EXPECT_EQ(steps.size(), 2U);
}

TEST_F(Sequences, EndWithTheirWorkerAndSaySo) {
  auto one = stateful("d");
  const auto two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  const auto first = step(1, true), second = step(2, true);
  ASSERT_TRUE(done({first, second}));
  const bool first_on_one = one->items == 1 && !one->steps.empty();
  ASSERT_TRUE(first_on_one && two->items == 1);
  one->hold = true;
  std::vector<std::shared_ptr<Asked>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(step(1));
    all.push_back(step(2));
  }
  ASSERT_TRUE(until([&] { return one->batches == 2; }));
  one->vanish();
  ASSERT_TRUE(done(all));
  int lost = 0, well = 0;
  for (const auto& asked : all) {
    if (!asked->denial) ++well;
    if (asked->denial && asked->denial->kind == Denial::Kind::lost) ++lost;
  }
  EXPECT_EQ(lost, 3);
  EXPECT_EQ(well, 3);
  EXPECT_EQ(metric("partita_sequences_lost_total{service=\"s\"}"), 1);
  const bool either = step(1)->denial.has_value() != step(2)->denial.has_value();
  EXPECT_TRUE(either) << "one goes on to be lost";
  const auto anew = step(1, true);
  ASSERT_TRUE(done({anew}));
  EXPECT_FALSE(anew->denial);
}

// Requests a second, and at a time; what a key had is counted.
TEST_F(Sequences, KeysHaveLimits) {
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  const KeyLimits key{.per_second = 2};
  RequestHead head;
  head.limits = &key;
  head.client = "token 1";
  head.bytes = 100;
  const auto a = ask(1, 1, head), b = ask(2, 1, head), c = ask(3, 1, head);
  ASSERT_TRUE(done({a, b, c}));
  EXPECT_FALSE(a->denial);
  EXPECT_FALSE(b->denial);
  EXPECT_EQ(c->denial->kind, Denial::Kind::slowed);
  EXPECT_GT(c->denial->retry_after_ns, 0);
  const std::string labels = "{service=\"s\",key=\"token 1\"}";
  EXPECT_EQ(metric("partita_key_requests_total" + labels), 2);
  EXPECT_EQ(metric("partita_key_bytes_total" + labels), 200);
  EXPECT_EQ(metric("partita_key_over_limit_total" + labels), 1);
  const KeyLimits single{.at_once = 1};
  head.limits = &single;
  head.client = "token 2";
  const auto d = ask(1, 1, head), e = ask(1, 1, head);
  EXPECT_EQ(e->denial->kind, Denial::Kind::slowed);
  ASSERT_TRUE(done({d}));
  const auto f = ask(1, 1, head);
  ASSERT_TRUE(done({f}));
  EXPECT_FALSE(f->denial);
}

}  // namespace
}  // namespace partita::serve
