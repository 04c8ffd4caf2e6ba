// A history whose files are damaged: the program that keeps it goes on, nothing that was kept is
// thrown away, and it says what it did.
#include "history/store/lasting_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::history {
namespace {

Event change_event(long change) {
  return {.time_ms = 1'000'000 + change,
          .kind = EventKind::applied,
          .change = change,
          .user = "agent",
          .cause = "a cause that is long enough to fill a page or two of the file in the end",
          .documents = {{"plan", std::string(700, 'p')}}};
}

// Damages a file in one way or another; what it did.
std::string damage(Files& files, const std::string& path, Rng& rng) {
  std::string text = files.read(path).value_or("");
  const std::size_t at = text.empty() ? 0 : rng.below(text.size());
  switch (rng.below(5)) {
    case 0:
      EXPECT_TRUE(files.write_atomic(path, text.substr(0, at)));
      return fmt::format("cut at {}", at);
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << rng.below(8)));
      EXPECT_TRUE(files.write_atomic(path, text));
      return fmt::format("bit at {}", at);
    case 2:
      EXPECT_TRUE(files.write_atomic(path, ""));
      return "emptied";
    case 3:
      for (std::size_t i = at; i < std::min(text.size(), at + 4096); ++i)
        text[i] = static_cast<char>(rng.next());
      EXPECT_TRUE(files.write_atomic(path, text));
      return fmt::format("garbage at {}", at);
    default:
      EXPECT_TRUE(files.remove(path));
      EXPECT_TRUE(files.make_directories(path));  // whoever is root reads what he may not
      return "a directory";
  }
}

bool there_are(const std::string& folder, const std::string& prefix) {
  for (const auto& one : std::filesystem::directory_iterator(folder))
    if (one.path().filename().string().starts_with(prefix)) return true;
  return false;
}

// PARTITA_DAMAGES says how many places instead of the usual few.
TEST(LastingStore, GoesOnWhateverBecomesOfItsFile) {
  const char* wanted = std::getenv("PARTITA_DAMAGES");
  const int places = wanted != nullptr ? std::atoi(wanted) : test_rounds(30);
  RealFiles files;
  Rng rng(30);
  long set_aside = 0;
  for (int place = 0; place < places; ++place) {
    const TemporaryFolder folder;
    std::vector<std::string> told;
    const auto tell = [&](const std::string& sentence) { told.push_back(sentence); };
    long written = 0;
    const auto keep = [&](LastingStore& store, long events) {
      for (long n = 0; n < events; ++n)
        if (store.append(change_event(++written))) continue;
    };
    {
      LastingStore store(files, folder.file(), tell);
      store.open(1);
      keep(store, 20 + static_cast<long>(rng.below(40)));
    }
    ASSERT_TRUE(told.empty()) << told.front();
    const char* const endings[] = {"", "", "", "-wal"};
    const std::string path = folder.file() + endings[rng.below(4)];
    const std::string how = damage(files, path, rng);
    SCOPED_TRACE(path + ": " + how);
    LastingStore store(files, folder.file(), tell);
    store.open(1'000'000);
    keep(store, 30);
    EXPECT_TRUE(store.measure({{1'000'000, "rate", "s", 4}}).has_value() || !told.empty());
    static_cast<void>(store.tidy(2'000'000).has_value());
    // Either it goes on, in the old file or in a new one, or it says of the file why not.
    const bool kept = store.append(change_event(++written)).has_value();
    EXPECT_TRUE(kept || (!told.empty() && told.front().find(folder.file()) != std::string::npos));
    if (kept) {
      EXPECT_EQ(store.last_change(), written);
    }
    if (there_are(folder.path, "history.db.damaged-")) {
      ++set_aside;
      EXPECT_FALSE(told.empty());
    }
  }
  if (places >= 30) {  // few may all be harmless
    EXPECT_GT(set_aside * 10, places) << "hardly any damage was one";
  }
}

TEST(LastingStore, TriesAgainWhatCannotBeOpenedNow) {
  const TemporaryFolder folder;
  RealFiles files;
  std::vector<std::string> told;
  LastingStore store(files, folder.path + "/deeper/history.db",
                     [&](const std::string& sentence) { told.push_back(sentence); });
  store.open(1);
  EXPECT_EQ(store.last_change(), 0);
  const auto at = [](std::int64_t time_ms) { return Event{.time_ms = time_ms, .user = "agent"}; };
  EXPECT_FALSE(store.append(at(2)));
  ASSERT_EQ(told.size(), 1U);
  ASSERT_TRUE(files.make_directories(folder.path + "/deeper"));
  EXPECT_FALSE(store.append(at(kReopenMs)));
  EXPECT_TRUE(store.append(at(kReopenMs + 1)));
  EXPECT_EQ(told.size(), 2U);
}

}  // namespace
}  // namespace partita::history
