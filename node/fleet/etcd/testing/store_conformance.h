// What every Store promises, as tests: StoreSuite<Ground>, where a Ground is
//   struct Ground {
//     static bool is_there();
//     Store& store();
//     void pass(std::chrono::milliseconds);
//   };
// `pass` lets so much time go by for leases. Keys are under a prefix of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "fleet/etcd/store.h"

namespace partita::fleet {

template <class Ground>
class StoreSuite : public testing::Test {
 protected:
  void SetUp() override {
    if (!Ground::is_there()) GTEST_SKIP() << "it is not installed here";
  }
  static constexpr auto kVersion = Condition::What::version;
  static constexpr auto kCreated = Condition::What::created;
  Store& store() { return ground_.store(); }
  std::string key(const std::string& name) { return prefix_ + name; }
  Committed commit(const Transaction& transaction) {
    const auto done = store().commit(transaction);
    EXPECT_TRUE(done.has_value()) << to_string(done.error());
    return done.value_or(Committed{});
  }
  long put(const std::string& name, const std::string& value, long lease = 0) {
    return commit({{}, {{key(name), value, lease}}}).revision;
  }
  std::vector<KeyValue> all() {
    const auto range = store().range({prefix_});
    EXPECT_TRUE(range.has_value()) << to_string(range.error());
    return range ? range->all : std::vector<KeyValue>{};
  }
  // Until as many changes came, or nothing for a while.
  std::vector<SeenChange> watched(Watch& watch, std::size_t count) {
    std::vector<SeenChange> seen;
    for (int round = 0; round < 100 && seen.size() < count; ++round) {
      const auto more = watch.take();
      EXPECT_TRUE(more.has_value()) << to_string(more.error());
      if (!more) break;
      seen.insert(seen.end(), more->begin(), more->end());
      if (seen.size() < count) ground_.pass(std::chrono::milliseconds(50));
    }
    return seen;
  }

  Ground ground_;
  const std::string prefix_ = "/partita/suite/";
};

TYPED_TEST_SUITE_P(StoreSuite);

TYPED_TEST_P(StoreSuite, KeepsKeysWithTheirVersions) {
  const long first = this->put("a", "1"), second = this->put("b", std::string("\0\xff", 2));
  const long third = this->put("a", "2");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  const auto all = this->all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], (KeyValue{this->key("a"), "2", first, third, 0}));
  EXPECT_EQ(all[1], (KeyValue{this->key("b"), std::string("\0\xff", 2), second, second, 0}));
  EXPECT_EQ(this->store().range({this->prefix_})->revision, third);
  this->commit({{}, {{this->key("a"), {}, 0}}});
  EXPECT_EQ(this->all().size(), 1u);
}

TYPED_TEST_P(StoreSuite, ChangesAllOrNothing) {
  const long first = this->put("a", "1");
  const Transaction both{
      {{this->kVersion, this->key("a"), first}, {this->kCreated, this->key("b"), 0}},
      {{this->key("a"), "2", 0}, {this->key("b"), "1", 0}}};
  EXPECT_TRUE(this->commit(both).done);
  EXPECT_FALSE(this->commit(both).done);
  const auto all = this->all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].value, "2");
  EXPECT_EQ(all[0].version, all[1].version);
  EXPECT_EQ(all[0].created, first);
  EXPECT_FALSE(this->commit({{{this->kCreated, this->key("a"), first + 1}}, {}}).done);
  EXPECT_TRUE(this->commit({{{this->kCreated, this->key("a"), first}}, {}}).done);
}

TYPED_TEST_P(StoreSuite, HasManyKeysInOrder) {
  const int count = 950;  // more than a page of an answer
  for (int k = 0; k < count;) {
    Transaction transaction;
    for (int one = 0; one < 100 && k < count; ++one, ++k)
      transaction.changes.push_back({this->key("k" + std::to_string(1000 + k)), "v", 0});
    this->commit(transaction);
  }
  const auto all = this->all();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(count));
  for (int k = 0; k < count; ++k)
    EXPECT_EQ(all[static_cast<std::size_t>(k)].key, this->key("k" + std::to_string(1000 + k)));
}

TYPED_TEST_P(StoreSuite, KeysGoWithTheirLease) {
  const auto lease = this->store().grant(2), other = this->store().grant(60);
  ASSERT_TRUE(lease && other);
  this->put("a", "1", *lease);
  this->put("b", "1", *other);
  this->put("c", "1", *lease);
  this->put("c", "2");  // has none any more
  for (int i = 0; i < 4; ++i) {
    this->ground_.pass(std::chrono::milliseconds(900));
    EXPECT_TRUE(this->store().keep_alive(*lease).has_value());
  }
  EXPECT_EQ(this->all().size(), 3u);
  EXPECT_EQ(this->all()[0].lease, *lease);
  for (int i = 0; i < 40 && this->all().size() > 2; ++i)
    this->ground_.pass(std::chrono::milliseconds(250));
  EXPECT_EQ(this->all().size(), 2u);
  const auto ended = this->store().keep_alive(*lease);
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, ErrorCode::not_found);
  EXPECT_TRUE(this->store().revoke(*other).has_value());
  EXPECT_EQ(this->all().size(), 1u);
}

TYPED_TEST_P(StoreSuite, RefusesALeaseThatIsNotThere) {
  const auto done = this->store().commit({{}, {{this->key("a"), "1", 12345}}});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::not_found);
  EXPECT_TRUE(this->all().empty());
}

TYPED_TEST_P(StoreSuite, WatchesTellEveryChangeOnceInOrder) {
  this->put("a", "0");
  const long after = this->store().range({this->prefix_})->revision;
  const long first = this->put("a", "1");
  auto watch = this->store().watch({this->prefix_}, after);
  ASSERT_TRUE(watch.has_value());
  const long second = this->put("b", "1");
  const long third = this->commit({{}, {{this->key("a"), {}, 0}}}).revision;
  this->commit({{}, {{"/partita/suitf", "x", 0}}});  // another's
  const auto seen = this->watched(**watch, 3);
  const std::vector<SeenChange> expected{{this->key("a"), "1", first},
                                         {this->key("b"), "1", second},
                                         {this->key("a"), std::nullopt, third}};
  EXPECT_EQ(seen, expected);
  EXPECT_TRUE((*watch)->take()->empty());
}

TYPED_TEST_P(StoreSuite, WatchesTellOfEndedLeases) {
  const auto lease = this->store().grant(60);
  this->put("a", "1", *lease);
  auto watch = this->store().watch({this->prefix_}, this->store().range({this->prefix_})->revision);
  ASSERT_TRUE(watch.has_value());
  EXPECT_TRUE(this->store().revoke(*lease).has_value());
  const auto seen = this->watched(**watch, 1);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_FALSE(seen[0].value.has_value());
}

TYPED_TEST_P(StoreSuite, HasSeveralPlaces) {
  for (const char* name : {"a", "ab", "b/1", "b/2", "c/1", "d"}) this->put(name, name);
  const Places places{this->key("d"), this->key("a"), this->key("b/")};
  const auto range = this->store().range(places);
  ASSERT_TRUE(range.has_value()) << to_string(range.error());
  std::vector<std::string> values;
  for (const KeyValue& one : range->all) values.push_back(one.value);
  EXPECT_EQ(values, (std::vector<std::string>{"a", "b/1", "b/2", "d"}));
  auto watch = this->store().watch(places, range->revision);
  ASSERT_TRUE(watch.has_value());
  for (const char* name : {"ab", "a", "c/1", "b/3", "d/1", "d"}) this->put(name, "new");
  std::vector<std::string> seen;
  for (const SeenChange& one : this->watched(**watch, 3)) seen.push_back(one.key);
  std::ranges::sort(seen);  // of several places: in any order
  EXPECT_EQ(seen, (std::vector<std::string>{this->key("a"), this->key("b/3"), this->key("d")}));
  EXPECT_TRUE((*watch)->take()->empty());
}

TYPED_TEST_P(StoreSuite, ForgetsWhatIsCompacted) {
  const long first = this->put("a", "1"), second = this->put("a", "2");
  EXPECT_TRUE(this->store().compact(second).has_value());
  EXPECT_TRUE(this->store().compact(second).has_value());  // it is so
  EXPECT_FALSE(this->store().compact(second + 1000).has_value());
  EXPECT_EQ(this->all().at(0), (KeyValue{this->key("a"), "2", first, second, 0}));
  auto old = this->store().watch({this->prefix_}, first - 1);
  bool breaks = false;
  for (int round = 0; round < 100 && !breaks; ++round) {
    breaks = !old || !(*old)->take();
    this->ground_.pass(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(breaks);
}

REGISTER_TYPED_TEST_SUITE_P(StoreSuite, KeepsKeysWithTheirVersions, ChangesAllOrNothing,
                            HasManyKeysInOrder, KeysGoWithTheirLease, RefusesALeaseThatIsNotThere,
                            WatchesTellEveryChangeOnceInOrder, WatchesTellOfEndedLeases,
                            HasSeveralPlaces, ForgetsWhatIsCompacted);

}  // namespace partita::fleet
