#include "act/journal.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace partita::actuate {
namespace {

const Place kPlace{{"3g.40gb", 4}, 1, "GPU-a"};

BeginRecord begin_record(long number) {
  BeginRecord begin;
  begin.transaction = number;
  begin.target.gpus = {{"A100-80GB", "", {{"3g.40gb", 4, {"chat \"x\"", 8, 2, 12.5}}}, 0},
                       {"A100-80GB", "", {}}};
  begin.source.gpus = {{"A100-80GB", "GPU-a", {{"1g.10gb", 6, {}}}}};
  begin.target.services = {
      {.name = "chat \"x\"", .rate = Rps{7.7}, .slo = Millis{12.3}, .percentile = 0}};
  begin.source.services = {{.name = "s", .model = "m", .slo = Millis{1}, .percentile = 99.9}};
  begin.gpu_uuids = {"GPU-a"};
  return begin;
}

std::vector<Record> story() {
  return {begin_record(1),     IntentRecord{kPlace},     MadeRecord{kPlace, "MIG-1"},
          GoneRecord{"MIG-0"}, EndRecord{1, "done", ""}, begin_record(2),
          IntentRecord{kPlace}};
}

std::string text_of(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += record_line(record);
  return text;
}

TEST(Journal, SaysWhatWasWritten) {
  const auto parsed = parse_journal("j", text_of(story()));
  ASSERT_TRUE(parsed.has_value()) << to_string(parsed.error());
  EXPECT_EQ(parsed->state.transactions, 2);
  EXPECT_EQ(parsed->state.last, begin_record(2));
  EXPECT_TRUE(parsed->state.pending());
  EXPECT_EQ(parsed->state.owned, std::vector<std::string>{"MIG-1"});
  EXPECT_EQ(parsed->state.intended, std::vector<Place>{kPlace});
  EXPECT_EQ(parse_journal("j", journal_text(parsed->state))->state, parsed->state);
  const std::vector<Record> all = story();
  const auto ended = parse_journal("j", text_of({all.begin(), all.begin() + 5}));
  EXPECT_FALSE(ended->state.pending());
  EXPECT_EQ(parse_journal("j", journal_text(ended->state))->state, ended->state);
}

TEST(Journal, ATornLastLineIsAsIfItHadNeverBeen) {
  const std::string whole = text_of(story());
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  const auto without = parse_journal("j", whole.substr(0, last));
  ASSERT_TRUE(without.has_value());
  for (std::size_t length = last; length < whole.size(); ++length) {
    const auto torn = parse_journal("j", whole.substr(0, length));
    ASSERT_TRUE(torn.has_value()) << length;
    EXPECT_EQ(torn->state, without->state);
    EXPECT_EQ(torn->valid_bytes, last);
  }
}

TEST(Journal, AnyFlippedByteIsNoticed) {
  const std::string whole = text_of(story());
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    if (damaged[i] == '\n' || whole[i] == '\n') continue;
    const auto parsed = parse_journal("j", damaged);
    ASSERT_FALSE(parsed.has_value()) << i;
    EXPECT_EQ(parsed.error().code, ErrorCode::bad_input);
    EXPECT_EQ(parsed.error().context.substr(0, 2), "j:");
  }
}

TEST(Journal, OpensWithATornTailAndRefusesASecondUser) {
  MemoryFiles files;
  files.content["/s/journal"] = text_of(story()) + "0123";
  {
    auto journal = Journal::open(files, "/s/journal");
    ASSERT_TRUE(journal.has_value());
    EXPECT_EQ(journal->state(), parse_journal("j", text_of(story()))->state);
    const auto second = Journal::open(files, "/s/journal");
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::in_use);
    ASSERT_TRUE(journal->append(EndRecord{2, "failed", "why"}));
    EXPECT_TRUE(journal->state().pending());
  }
  EXPECT_TRUE(read_journal(files, "/s/journal")->pending());
  EXPECT_TRUE(Journal::open(files, "/s/journal").has_value());
  files.content["/s/journal"][3] ^= 1;
  const auto damaged = Journal::open(files, "/s/journal");
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().message,
            parse_journal("j", files.content["/s/journal"]).error().message);
}

// A disk that is full: of every second append only the first half is written.
class FullFiles final : public MemoryFiles {
 public:
  int appends = 0;
  Result<void> append(const std::string& path, std::string_view text) override {
    if (++appends % 2 != 0) return MemoryFiles::append(path, text);
    CHECK(MemoryFiles::append(path, text.substr(0, text.size() / 2)).has_value());
    return environment_error(path, "no space left on device");
  }
};

TEST(Journal, GoesOnAfterAnAppendThatFailed) {
  FullFiles files;
  auto journal = Journal::open(files, "/s/journal");
  ASSERT_TRUE(journal.has_value());
  int appended = 0;
  for (const Record& record : story()) {
    const JournalState before = journal->state();
    if (journal->append(record)) {
      ++appended;
    } else {
      EXPECT_EQ(journal->state(), before);
    }
    const auto read = read_journal(files, "/s/journal");
    ASSERT_TRUE(read.has_value()) << to_string(read.error());
    EXPECT_EQ(*read, journal->state());
  }
  EXPECT_GT(appended, 1);
  EXPECT_LT(appended, static_cast<int>(story().size()));
}

TEST(Journal, GrowsNoLargerThanItsLimit) {
  MemoryFiles files;
  auto journal = Journal::open(files, "/s/journal");
  ASSERT_TRUE(journal.has_value());
  for (const Record& record : story()) ASSERT_TRUE(journal->append(record));
  EXPECT_TRUE(files.content["/s/journal"].ends_with(text_of(story()))) << "until then all stays";
  std::size_t largest = 0;
  for (int i = 1; i <= 6000; ++i) {
    ASSERT_TRUE(journal->append(begin_record(i)));
    ASSERT_TRUE(journal->append(EndRecord{i, "done", ""}));
    largest = std::max(largest, files.content["/s/journal"].size());
  }
  EXPECT_LT(largest, kMaxJournalBytes + 4096);
  EXPECT_EQ(read_journal(files, "/s/journal")->transactions, 6000);
}

}  // namespace
}  // namespace partita::actuate
