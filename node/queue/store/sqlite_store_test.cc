#include "queue/store/sqlite_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/rng.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::queue {
namespace {

Task task_of(long id) {
  Task task;
  task.id = id;
  task.spec.name = "n";
  task.spec.command = "c";
  task.spec.user = "u";
  return task;
}

void same(QueueStore& a, QueueStore& b) {
  const auto x = a.load(), y = b.load();
  ASSERT_TRUE(x && y);
  auto tasks = x->tasks;
  std::ranges::sort(tasks, {}, &Task::id);
  EXPECT_EQ(tasks, y->tasks);
  EXPECT_EQ(x->recent, y->recent);
  for (const long last : {0L, 3L, 1'000L}) {
    EXPECT_EQ(*a.ended({last}), *b.ended({last}));
    for (const long after : {0L, 2L, 7L})
      EXPECT_EQ(*a.ended({last, after, 2}), *b.ended({last, after, 2}));
  }
  for (long id = 0; id <= 31; ++id) EXPECT_EQ(*a.task(id), *b.task(id));
  EXPECT_EQ(x->last_id, y->last_id);
  EXPECT_EQ(x->times, y->times);
  EXPECT_EQ(x->usage, y->usage);
  for (const Task& task : y->tasks) EXPECT_EQ(*a.runs(task.id), *b.runs(task.id));
}

// Against the one in memory, and closed in between.
TEST(SqliteStore, HoldsWhatTheOneInMemoryHolds) {
  const history::TemporaryFolder folder;
  MemoryStore memory;
  Rng rng(1);
  for (int round = 0; round < 5; ++round) {
    const auto store = SqliteStore::open(folder.path + "/queue.db");
    ASSERT_TRUE(store) << to_string(store.error());
    for (int i = 0; i < 20; ++i) {
      Keep keep;
      Task task = task_of(1 + static_cast<long>(rng.below(30)));
      task.state = static_cast<State>(rng.below(8));
      keep.tasks.push_back(task);
      keep.runs.push_back({task.id, static_cast<int>(rng.below(3)), 5, 6, 0, "done", {}});
      keep.times[{"u", "n", "A100", static_cast<int>(rng.below(3))}] = {2, rng.uniform(), 0.5};
      keep.usage["u"] = {rng.uniform(), static_cast<plan::Nanos>(rng.below(1000))};
      ASSERT_TRUE((*store)->keep(keep));
      ASSERT_TRUE(memory.keep(keep));
    }
    same(**store, memory);
  }
}

// However many have ended, what a start reads is what is live, and the last few.
TEST(SqliteStore, AStartReadsWhatIsLive) {
  const history::TemporaryFolder folder;
  const auto store = SqliteStore::open(folder.path + "/queue.db");
  ASSERT_TRUE(store);
  Keep keep;
  for (long id = 1; id <= 3'000; ++id) {
    keep.tasks.push_back(task_of(id));
    if (id % 1'000 != 0) keep.tasks.back().state = State::failed;
  }
  ASSERT_TRUE((*store)->keep(keep));
  const auto loaded = (*store)->load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->tasks.size(), 3u);
  EXPECT_EQ(loaded->recent.size(), static_cast<std::size_t>(kRecentTasks));
  EXPECT_EQ(loaded->recent.back().id, 2'999);
  EXPECT_EQ(loaded->last_id, 3'000);
}

TEST(SqliteStore, AFullDiskIsASentenceAndLeavesWhatWasThere) {
  const history::TemporaryFolder folder;
  const auto store = SqliteStore::open(folder.path + "/queue.db");
  ASSERT_TRUE(store);
  Keep keep;
  keep.tasks.push_back(task_of(1));
  ASSERT_TRUE((*store)->keep(keep));
  ASSERT_TRUE((*store)->limit_pages(1));  // no more than it has
  keep.tasks[0].id = 2;
  keep.tasks[0].spec.command = std::string(60'000, 'x');
  const auto refused = (*store)->keep(keep);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no room"), std::string::npos);
  EXPECT_EQ((*store)->load()->tasks.size(), 1u);
  ASSERT_TRUE((*store)->limit_pages(0));
  EXPECT_TRUE((*store)->keep(keep));
  EXPECT_EQ((*store)->load()->tasks.size(), 2u);
}

TEST(SqliteStore, RefusesWhatIsNoQueue) {
  const history::TemporaryFolder folder;
  const std::string path = folder.path + "/queue.db";
  ASSERT_TRUE(SqliteStore::open(path));
  std::filesystem::resize_file(path, 100);
  EXPECT_FALSE(SqliteStore::open(path));
}

}  // namespace
}  // namespace partita::queue
