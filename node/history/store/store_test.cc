#include "history/store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::history {
namespace {

constexpr std::int64_t kNow = 1'800'000'000'000;

Store must_open(const std::string& path, Access access = Access::write, const Keep& keep = {}) {
  auto store = Store::open(path, access, keep);
  if (!store) throw std::runtime_error(to_string(store.error()));  // a test cannot go on
  return *std::move(store);
}

Event some_event(Rng& rng) {
  static constexpr const char* kSubjects[] = {"", "chat", "search", "GPU-1"};
  Event event{.time_ms = kNow - static_cast<std::int64_t>(rng.below(1000)) * kMinuteMs,
              .kind = static_cast<EventKind>(rng.below(event_kinds().size())),
              .change = static_cast<long>(rng.below(6)),
              .user = rng.below(2) == 0 ? "root" : "agent",
              .cause = std::string(rng.below(40), 'c'),
              .subject = kSubjects[rng.below(4)],
              .outcome = static_cast<Outcome>(rng.below(5)),
              .detail = std::string("with a \0 byte and ümlaut", 24)};
  for (auto n = rng.below(3); n > 0; --n)
    event.documents.push_back({"plan", std::string(rng.below(300), 'd')});
  return event;
}

EventQuery some_query(Rng& rng, long newest) {
  EventQuery query;
  const auto maybe = [&] { return rng.below(3) == 0; };
  const auto id = [&] {
    return static_cast<long>(rng.below(static_cast<std::uint64_t>(newest + 2)));
  };
  const auto time = [&] { return kNow - static_cast<std::int64_t>(rng.below(1000)) * kMinuteMs; };
  if (maybe()) query.before = id();
  if (maybe()) query.after = id();
  if (maybe()) query.change = static_cast<long>(rng.below(6));
  if (maybe()) query.kinds = {EventKind::step, static_cast<EventKind>(rng.below(14))};
  if (maybe()) query.subject = "chat";
  if (maybe()) query.user = "root";
  if (maybe()) query.from_ms = time();
  if (maybe()) query.to_ms = time();
  query.most = 1 + static_cast<int>(rng.below(30));
  query.documents = rng.below(4) != 0;
  return query;
}

// What a query gives, computed from all events.
std::vector<Event> expected(const std::vector<Event>& all, const EventQuery& q) {
  std::vector<Event> found;
  for (auto one = all.rbegin(); one != all.rend() && found.size() < std::size_t(q.most); ++one) {
    if (q.before && one->id >= *q.before) continue;
    if (q.after && one->id <= *q.after) continue;
    if (q.change && one->change != *q.change) continue;
    if (!q.kinds.empty() && std::ranges::count(q.kinds, one->kind) == 0) continue;
    if (!q.subject.empty() && one->subject != q.subject) continue;
    if (!q.user.empty() && one->user != q.user) continue;
    if (q.from_ms && one->time_ms < *q.from_ms) continue;
    if (q.to_ms && one->time_ms >= *q.to_ms) continue;
    found.push_back(*one);
    if (!q.documents) found.back().documents.clear();
  }
  return found;
}

TEST(Store, AnswersAsAListInMemoryWould) {
  const TemporaryFolder folder;
  Rng rng(16);
  std::vector<Event> all;
  std::optional<Store> store = must_open(folder.file());
  const int rounds = test_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    for (int n = 0; n < 5; ++n) {
      Event event = some_event(rng);
      const auto id = store->append(event);
      ASSERT_TRUE(id) << to_string(id.error());
      event.id = *id;
      ASSERT_TRUE(all.empty() || event.id > all.back().id);
      all.push_back(event);
    }
    if (round % 10 == 9) {
      store.reset();
      store = must_open(folder.file());
    }
    const Store reader = must_open(folder.file(), Access::read);
    for (int n = 0; n < 10; ++n) {
      const EventQuery query = some_query(rng, all.back().id);
      const auto found = reader.events(query);
      ASSERT_TRUE(found) << to_string(found.error());
      EXPECT_EQ(*found, expected(all, query));
    }
    const Event& one = all[rng.below(all.size())];
    EXPECT_EQ(reader.event(one.id).value(), one);
  }
  EXPECT_EQ(store->event(all.back().id + 1).value(), std::nullopt);
}

TEST(Store, RefusesWhatIsNoEvent) {
  const TemporaryFolder folder;
  Store store = must_open(folder.file());
  EXPECT_EQ(store.append({.id = 3, .user = "x"}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(store.append({.user = ""}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(store.append({.change = -1, .user = "x"}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(store.events({.most = 0}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(store.events({.most = kMaxRows + 1}).error().code, ErrorCode::bad_input);
  EXPECT_EQ(store.events({}).value().size(), 0U);
}

TEST(Store, TheHighestNumberOutlivesItsEvents) {
  const TemporaryFolder folder;
  Keep keep;
  keep.events = 1;
  std::optional<Store> store = must_open(folder.file(), Access::write, keep);
  EXPECT_EQ(store->last_change().value(), 0);
  ASSERT_TRUE(store->append({.time_ms = kNow, .change = 9, .user = "x"}));
  ASSERT_TRUE(store->append({.time_ms = kNow, .user = "x"}));
  ASSERT_TRUE(store->tidy(kNow));  // forgets the one of change 9
  EXPECT_EQ(store->events({}).value().size(), 1U);
  store.reset();
  store = must_open(folder.file());
  EXPECT_EQ(store->last_change().value(), 9);
  EXPECT_EQ(store->append({.time_ms = kNow, .user = "x"}).value(), 3);  // nor those of events
}

TEST(Store, TheFileIsForItsOwnerAndGroup) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  { const Store store = must_open(folder.file()); }
  ::umask(before);
  for (const char* end : {"", "-wal", "-shm"}) {
    struct stat info {};
    ASSERT_EQ(::stat((folder.file() + end).c_str(), &info), 0) << end;
    EXPECT_EQ(info.st_mode & 0777, 0640U) << end;
  }
}

TEST(Store, ReadersNeedAFileAndWriteNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(Store::open(folder.file(), Access::read).error().code, ErrorCode::environment);
  EXPECT_FALSE(std::filesystem::exists(folder.file()));
  EXPECT_EQ(Store::open(folder.path + "/no/history.db", Access::write).error().code,
            ErrorCode::environment);
  Store writer = must_open(folder.file());
  Store reader = must_open(folder.file(), Access::read);
  EXPECT_EQ(reader.append({.user = "x"}).error().code, ErrorCode::denied);
  EXPECT_EQ(reader.last_change().value(), 0);
  EXPECT_FALSE(reader.measure({{1, "watts", "", 1}}));
  ASSERT_TRUE(writer.append({.user = "x"}));
  EXPECT_EQ(reader.events({}).value().size(), 1U);
}

TEST(Store, SaysWhatToDoWithADamagedFile) {
  const TemporaryFolder folder;
  std::ofstream(folder.file()) << "this is no database, but long enough to look like one of them";
  const auto text = Store::open(folder.file(), Access::write);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::bad_input);
  EXPECT_NE(text.error().message.find("mv " + folder.file()), std::string::npos);
  std::filesystem::remove(folder.file());
  {
    Store store = must_open(folder.file());
    for (int n = 0; n < 200; ++n)
      ASSERT_TRUE(store.append({.user = "x", .documents = {{"plan", std::string(500, 'p')}}}));
    ASSERT_TRUE(store.tidy(0));
  }
  std::filesystem::remove(folder.file() + "-wal");
  // Every page but the first two becomes rubbish: found when it is read, as a clear refusal.
  {
    std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<long>(std::filesystem::file_size(folder.file()));
    file.seekp(3 * 4096);
    for (long at = 3 * 4096; at < size; ++at) file.put('\xA5');
  }
  const auto store = Store::open(folder.file(), Access::read);
  const auto events = store ? store->events({}) : failed(store.error());
  ASSERT_FALSE(events);
  EXPECT_EQ(events.error().code, ErrorCode::bad_input);
  EXPECT_NE(events.error().message.find("is damaged"), std::string::npos);
  EXPECT_NE(events.error().message.find("Move it away"), std::string::npos);
}

TEST(Store, ForgetsTheOldestEventsAndOnlyThem) {
  const TemporaryFolder folder;
  Keep keep;
  keep.events = 50;
  keep.events_ms = 10 * kDayMs;
  Store store = must_open(folder.file(), Access::write, keep);
  for (int n = 0; n < 120; ++n) {  // ids 1 to 120, the last of today
    const std::int64_t time = kNow - (120 - n) * kHourMs * 6;
    ASSERT_TRUE(store.append({.time_ms = time, .user = "x", .documents = {{"plan", "{}"}}}));
  }
  ASSERT_TRUE(store.tidy(kNow));
  const auto rest = store.events({.most = 1000});
  EXPECT_EQ(rest->size(), 40U);  // 10 days of 4 each, less than 50
  EXPECT_EQ(rest->back().id, 81);
  for (int n = 0; n < 30; ++n) ASSERT_TRUE(store.append({.time_ms = kNow, .user = "x"}));
  ASSERT_TRUE(store.tidy(kNow));
  EXPECT_EQ(store.events({.most = 1000})->size(), 50U);
  EXPECT_EQ(store.events({.most = 1000})->back().id, 101);
}

TEST(Store, StaysWithinItsBytes) {
  const TemporaryFolder folder;
  Keep keep;
  keep.bytes = 2 << 20;
  Store store = must_open(folder.file(), Access::write, keep);
  long accepted = 0, refused = 0;
  for (int n = 0; n < 400; ++n) {
    const auto id = store.append({.time_ms = kNow,
                                  .user = "x",
                                  .detail = "d",
                                  .documents = {{"plan", std::string(20'000, 'p')}}});
    (id ? accepted : refused) += 1;
    if (!id) {
      EXPECT_EQ(id.error().code, ErrorCode::environment) << to_string(id.error());
      const auto tidied = store.tidy(kNow);
      EXPECT_TRUE(tidied) << to_string(tidied.error());
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(store.events({.most = 1000, .documents = false})->size(), std::size_t(accepted));
  for (int n = 0; n < 20; ++n) ASSERT_TRUE(store.tidy(kNow));
  EXPECT_LT(std::filesystem::file_size(folder.file()),
            static_cast<std::uintmax_t>(keep.bytes) * 5 / 4 + 65536);
  // The newest keep their documents.
  EXPECT_EQ(store.events({.most = 20})->back().documents.size(), 1U);
}

TEST(Store, ManyMayOpenANewFileAtOnceAndWriteInTurn) {
  const TemporaryFolder folder;
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&folder, w] {
      Store store = must_open(folder.file());
      for (int n = 0; n < 10; ++n) {
        const auto kept =
            store.append({.change = 10 * w + n + 1, .user = "writer " + std::to_string(w)});
        ASSERT_TRUE(kept) << to_string(kept.error());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto events = must_open(folder.file(), Access::read).events({.most = 1000});
  ASSERT_EQ(events->size(), 40U);
  std::vector<long> changes;
  for (const Event& event : *events) changes.push_back(event.change);
  std::ranges::sort(changes);
  for (long n = 1; n <= 40; ++n) EXPECT_EQ(changes[static_cast<std::size_t>(n - 1)], n);
}

}  // namespace
}  // namespace partita::history
