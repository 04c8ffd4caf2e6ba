#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/base64.h"
#include "base/testing/test_certificate.h"
#include "fleet/etcd/etcd_messages.h"
#include "fleet/etcd/testing/etcd_of_tests.h"
#include "fleet/etcd/testing/fake_member.h"
#include "fleet/etcd/testing/memory_store.h"
#include "fleet/etcd/testing/store_conformance.h"

namespace partita::fleet {
namespace {

struct InMemory {
  static bool is_there() { return true; }
  MemoryStore memory;
  std::int64_t now_ms = 0;
  Store& store() { return memory; }
  void pass(std::chrono::milliseconds time) { memory.tell_time(now_ms += time.count()); }
};

// One etcd for all tests, emptied before each.
struct InEtcd {
  static bool is_there() { return TestEtcd::is_installed(); }
  static TestEtcd& etcd() {
    static TestEtcd one;
    return one;
  }
  InEtcd() {
    if (!TestEtcd::is_installed()) return;
    const auto range = etcd().store().range({"/partita/"});
    for (const KeyValue& one : range->all)
      static_cast<void>(etcd().store().commit({{}, {{one.key, {}, 0}}}).has_value());
  }
  Store& store() { return etcd().store(); }
  void pass(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreSuite, InMemory);
INSTANTIATE_TYPED_TEST_SUITE_P(Etcd, StoreSuite, InEtcd);

TEST(MemoryStoreTest, WatchOfForgottenChangesBreaks) {
  MemoryStore store;
  const auto watch = store.watch({"/"}, 0);
  ASSERT_TRUE(store.commit({{}, {{"/a", "1", 0}}})->done);
  store.forget(store.revision());
  EXPECT_FALSE((*watch)->take().has_value());
}

TEST(EtcdStoreTest, BreaksWatchesOfWhatIsCompacted) {
  if (!TestEtcd::is_installed()) GTEST_SKIP() << "there is no etcd";
  TestEtcd& etcd = InEtcd::etcd();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(etcd.store().commit({{}, {{"/partita/x", "1", 0}}})->done);
  const long revision = etcd.store().range({"/partita/"})->revision;
  const auto dialer = serve::HttpDialer::to(*parse_url("test", etcd.endpoint()), {});
  const std::string body = "{\"revision\":\"" + std::to_string(revision) + "\"}";
  ASSERT_TRUE(serve::fetch(*dialer,
                           "POST /v3/kv/compaction HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                           "Content-Length: " +
                               std::to_string(body.size()) + "\r\n\r\n" + body,
                           etcd.clock(), 5'000'000'000));
  const auto watch = etcd.store().watch({"/partita/"}, 1);
  Result<std::vector<SeenChange>> seen;
  for (int i = 0; i < 100 && seen; ++i) {
    seen = (*watch)->take();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_FALSE(seen.has_value());
  EXPECT_NE(to_string(seen.error()).find("compacted"), std::string::npos);
}

TEST(EtcdStoreTest, SaysWhatIsWrongWithEndpoints) {
  RealFiles files;
  RealClock clock;
  EXPECT_FALSE(EtcdStore::to({}, files, clock).has_value());
  EXPECT_FALSE(EtcdStore::to({.endpoints = {"localhost:1"}}, files, clock).has_value());
  const auto clear = EtcdStore::to(
      {.endpoints = {"http://10.0.0.1:2379"}, .user = "u", .password_file = "p"}, files, clock);
  ASSERT_FALSE(clear.has_value());
  EXPECT_NE(clear.error().message.find("https"), std::string::npos);
  const std::vector<std::string> endpoints{"http://127.0.0.1:1", "http://127.0.0.1:2"};
  const auto nobody = EtcdStore::to({.endpoints = endpoints}, files, clock);
  const auto range = (*nobody)->range({"/"});
  ASSERT_FALSE(range.has_value());
  EXPECT_EQ(range.error().code, ErrorCode::environment);
  for (const std::string& one : endpoints)
    EXPECT_NE(range.error().message.find(one + ": "), std::string::npos) << range.error().message;
}

// The connection of its watch stays, as that of a member that hangs.
TEST(EtcdStoreTest, BreaksTheWatchOfAMemberThatDoesNotAnswer) {
  RealFiles files;
  RealClock clock;
  FakeMember first, second;
  const auto store =
      *EtcdStore::to({.endpoints = {first.endpoint(), second.endpoint()}}, files, clock);
  ASSERT_TRUE(store->range({"/"}));
  const auto watch = *store->watch({"/"}, 7);
  while (first.calls() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watch->take());
  first.stay_silent(true);
  ASSERT_TRUE(store->range({"/"}));
  EXPECT_FALSE(watch->take());
  const auto next = *store->watch({"/"}, 7);
  ASSERT_TRUE(store->range({"/"}));
  EXPECT_TRUE(next->take());
}

TEST(EtcdStoreTest, ManyBeginAtDifferentMembers) {
  RealFiles files;
  RealClock clock;
  FakeMember first, second;
  for (int n = 0; n < 32; ++n)
    ASSERT_TRUE((*EtcdStore::to({.endpoints = {first.endpoint(), second.endpoint()},
                                 .asks = "n" + std::to_string(n)},
                                files, clock))
                    ->range({"/"}));
  EXPECT_GT(first.calls(), 4);
  EXPECT_GT(second.calls(), 4);
  ASSERT_TRUE((*EtcdStore::to({.endpoints = {second.endpoint(), first.endpoint()}}, files, clock))
                  ->range({"/"}));
  EXPECT_EQ(first.calls() + second.calls(), 33);
}

// Its certificate is another one since, and so is the file that says whom to trust.
TEST(EtcdStoreTest, ReadsItsFilesAgainAfterFailures) {
  const std::filesystem::path folder =
      testing::TempDir() + "/etcd_renewed" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const auto own = test::make_certificate(folder), old = test::make_certificate(folder, "old");
  FakeMember member(*serve::TlsServer::make(own.certificate, own.key));
  const std::string trusted = folder / "ca.pem";
  std::filesystem::copy_file(old.certificate, trusted,
                             std::filesystem::copy_options::overwrite_existing);
  RealFiles files;
  RealClock clock;
  const auto store = *EtcdStore::to(
      {.endpoints = {member.endpoint()}, .tls = {.ca_file = trusted, .name = "localhost"}}, files,
      clock);
  EXPECT_FALSE(store->range({"/"}));
  std::filesystem::copy_file(own.certificate, trusted,
                             std::filesystem::copy_options::overwrite_existing);
  bool answers = false;
  for (int asked = 0; asked < 5 && !answers; ++asked) answers = store->range({"/"}).has_value();
  EXPECT_TRUE(answers);
  std::filesystem::remove_all(folder);
}

// As etcd 3.4.23 wrote them.
TEST(EtcdMessages, AreRead) {
  const std::string kv =
      R"({"key":"YQ==","create_revision":"2","mod_revision":"3","version":"1","value":"Yg==",)"
      R"("lease":"1418812106426666502"})";
  const auto page =
      parse_range(R"({"header":{"revision":"9"},"kvs":[)" + kv + R"(],"more":true,"count":"4"})");
  ASSERT_TRUE(page.has_value());
  EXPECT_TRUE(page->more);
  EXPECT_EQ(page->range.revision, 9);
  EXPECT_EQ(page->range.all.at(0), (KeyValue{"a", "b", 2, 3, 1418812106426666502}));
  EXPECT_TRUE(parse_txn(R"({"header":{"revision":"9"},"succeeded":true})")->done);
  EXPECT_FALSE(parse_txn(R"({"header":{"revision":"9"}})")->done);
  EXPECT_EQ(*parse_granted(R"({"ID":"1418812106426666502","TTL":"5"})"), 1418812106426666502);
  EXPECT_EQ(*parse_kept_alive(R"({"result":{"ID":"7"}})"), 0);
  EXPECT_EQ(*parse_kept_alive(R"({"result":{"ID":"7","TTL":"5"}})"), 5);
  const auto line =
      parse_watch_line(R"({"result":{"header":{"revision":"3"},"events":[{"kv":)" + kv +
                       R"(},{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"3"}}]}})");
  ASSERT_TRUE(line.has_value());
  ASSERT_EQ(line->changes.size(), 2u);
  EXPECT_EQ(line->changes[0], (SeenChange{"a", "b", 3}));
  EXPECT_EQ(line->changes[1], (SeenChange{"a", std::nullopt, 3}));
  EXPECT_FALSE(parse_watch_line(R"({"result":{"canceled":true,"compact_revision":"3"}})"));
  EXPECT_EQ(
      fault_of(R"({"error":"etcdserver: requested lease not found","message":"x","code":5})").code,
      ErrorCode::not_found);
  EXPECT_EQ(fault_of(R"({"error":"x","message":"etcdserver: invalid auth token","code":16})").code,
            ErrorCode::denied);
  EXPECT_EQ(fault_of("<html>").code, ErrorCode::environment);
  EXPECT_EQ(fault_of(R"({"error":"etcdserver: mvcc: required revision has been compacted",)"
                     R"("message":"etcdserver: mvcc: required revision has been compacted",)"
                     R"("code":11})")
                .code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(*parse_alarms(R"({"header":{"revision":"9"}})"), "");
  EXPECT_EQ(*parse_alarms(R"({"alarms":[{"memberID":"1","alarm":"NOSPACE"},)"
                          R"({"memberID":"2","alarm":"NOSPACE"}]})"),
            "NOSPACE");
}

TEST(EtcdMessages, RangesEndAfterTheirPrefix) {
  EXPECT_EQ(end_of_prefix("/a/"), "/a0");
  EXPECT_EQ(end_of_prefix("a\xff"), "b");
  EXPECT_EQ(end_of_prefix("\xff"), std::string(1, '\0'));
}

}  // namespace
}  // namespace partita::fleet
