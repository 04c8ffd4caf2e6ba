// The journal of a run that took place: what a crash may leave of it is read, what is damaged is
// refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_rounds.h"
#include "cases.h"

namespace partita::execution_tests {
namespace {

// Between two places in a journal that are tried.
std::size_t stride() { return 3 * static_cast<std::size_t>(std::max(1, 10 / test_rounds(10))); }

std::string journal_of_a_run() {
  Rng rng(4);
  const Case one = random_case(rng, {.most_tasks = 6, .most_gpus = 1, .gpus = {"A30-24GB"}}, "far");
  BatchWorld world(one.problem, one.schedule, {});
  world.live_to_the_end();
  return world.files.content.at(kJournal);
}

TEST(RunJournal, EveryPrefixIsWholeLinesAndATornOne) {
  const std::string text = journal_of_a_run();
  const auto whole = exec::parse_journal("j", text);
  ASSERT_TRUE(whole.has_value());
  ASSERT_GT(whole->records.size(), 8u);
  std::string written = log_header(exec::kLogKind);
  for (const exec::Record& record : whole->records) written += exec::record_line(record);
  EXPECT_EQ(written, text);
  for (std::size_t bytes = 0; bytes <= text.size(); bytes += stride()) {
    const std::string_view prefix = std::string_view(text).substr(0, bytes);
    const auto parsed = exec::parse_journal("j", prefix);
    ASSERT_TRUE(parsed.has_value()) << bytes;
    const auto lines = static_cast<std::size_t>(std::ranges::count(prefix, '\n'));
    EXPECT_EQ(parsed->records.size(), lines - std::min<std::size_t>(lines, 1));  // the header
    EXPECT_EQ(parsed->valid_bytes, prefix.rfind('\n') + 1);
    EXPECT_TRUE(std::equal(parsed->records.begin(), parsed->records.end(), whole->records.begin()));
  }
}

TEST(RunJournal, NoByteMayChange) {
  const std::string text = journal_of_a_run();
  for (std::size_t at = 0; at + 1 < text.size(); at += stride()) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const auto line = 1 + std::ranges::count(std::string_view(text).substr(0, at), '\n');
    const auto parsed = exec::parse_journal("j", damaged);
    ASSERT_FALSE(parsed.has_value()) << at;
    EXPECT_EQ(parsed.error().context, "j:" + std::to_string(line));
  }
  // A record that is listed twice, or lost, at the beginning.
  const std::string header = log_header(exec::kLogKind);
  ASSERT_TRUE(text.starts_with(header));
  const std::string records = text.substr(header.size());
  const std::string first = records.substr(0, records.find('\n') + 1);
  EXPECT_TRUE(exec::parse_journal("j", records).has_value());  // from before there were headers
  EXPECT_FALSE(exec::parse_journal("j", first + records).has_value());
  EXPECT_FALSE(exec::parse_journal("j", header + records.substr(first.size())).has_value());
  EXPECT_FALSE(exec::parse_journal("j", log_header("changes") + records).has_value());
}

// Who empties the journal of a run under way takes away what has finished; nothing runs again.
TEST(RunJournal, AnEmptiedOneOfARunUnderWayIsRefused) {
  Rng rng(6);
  const Case one = random_case(rng, {.most_tasks = 6, .most_gpus = 1, .gpus = {"A30-24GB"}}, "far");
  for (const std::string left : {"", "half a line"}) {
    BatchWorld world(one.problem, one.schedule, {});
    world.files.die_at = 4;
    ASSERT_FALSE(world.live(false));
    world.files.content[kJournal] = left;
    const std::map<std::string, int> starts = world.starts;
    EXPECT_TRUE(world.live(false));
    ASSERT_TRUE(world.refused().has_value());
    EXPECT_EQ(world.refused()->context, kJournal + ":1");
    EXPECT_EQ(world.starts, starts);
  }
}

TEST(RunJournal, OfAnotherBatchIsRefused) {
  Rng rng(6);
  const Case one = random_case(rng, {.most_tasks = 6, .most_gpus = 1, .gpus = {"A30-24GB"}}, "far");
  BatchWorld world(one.problem, one.schedule, {});
  world.files.content[kJournal] = journal_of_a_run();
  const auto before = world.files.content;
  EXPECT_TRUE(world.live(true));
  ASSERT_TRUE(world.refused().has_value());
  EXPECT_EQ(world.refused()->code, ErrorCode::bad_input);
  EXPECT_EQ(world.refused()->context, kJournal);
  EXPECT_EQ(world.files.content, before);
  EXPECT_TRUE(world.starts.empty());
}

}  // namespace
}  // namespace partita::execution_tests
