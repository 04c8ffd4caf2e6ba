#include "queue/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::queue {
namespace {

Task task_of(long id, const std::string& user, int priority = 0) {
  Task task;
  task.id = id;
  task.spec.user = user;
  task.spec.priority = priority;
  return task;
}

struct Bench {
  Turns turns;
  void come(const Task& task, double share = 1) {
    turns.give(task, share);
    turns.wait(task);
  }
  std::vector<long> order() const {
    std::vector<long> ids;
    turns.each([&](long id) {
      ids.push_back(id);
      return Turns::Go::on;
    });
    return ids;
  }
};

TEST(Turns, OfOneUserAreThoseOfComing) {
  Bench bench;
  for (const long id : {3L, 5L, 9L}) bench.come(task_of(id, "anna"));
  EXPECT_EQ(bench.order(), (std::vector<long>{3, 5, 9}));
}

TEST(Turns, AreTakenInSharesWithinAPriority) {
  Bench bench;
  for (long id = 1; id <= 4; ++id) bench.come(task_of(id, "anna"));
  for (long id = 11; id <= 18; ++id) bench.come(task_of(id, "carla"), 2);
  bench.come(task_of(20, "anna", 1));
  bench.come(task_of(21, "anna", -1));
  EXPECT_EQ(bench.order(), (std::vector<long>{20, 1, 11, 12, 2, 13, 14, 3, 15, 16, 4, 17, 18, 21}));
}

// Who comes later begins where the others are, neither behind all of theirs nor before them for
// as long as they have been here.
TEST(Turns, BeginWhereOthersAre) {
  Bench bench;
  for (long id = 1; id <= 100; ++id) bench.come(task_of(id, "mallory"));
  for (long id = 1; id <= 50; ++id) bench.turns.began(task_of(id, "mallory"));
  for (long id = 101; id <= 103; ++id) bench.come(task_of(id, "anna"));
  const std::vector<long> order = bench.order();
  EXPECT_EQ(std::vector<long>(order.begin(), order.begin() + 6),
            (std::vector<long>{101, 51, 102, 52, 103, 53}));
}

TEST(Turns, StayWhateverBecomesOfTheTask) {
  Bench bench;
  for (long id = 1; id <= 3; ++id) bench.come(task_of(id, "anna"));
  bench.turns.wait_no_more(task_of(1, "anna"));
  EXPECT_EQ(bench.order(), (std::vector<long>{2, 3}));
  bench.come(task_of(1, "anna"));
  EXPECT_EQ(bench.order(), (std::vector<long>{1, 2, 3}));
  bench.turns.began(task_of(1, "anna"));
  bench.turns.forget(1);
  EXPECT_EQ(bench.turns.of(1), 0);
}

TEST(Turns, GoOnAsLongAsIsSaid) {
  Bench bench;
  for (long id = 1; id <= 3; ++id) bench.come(task_of(id, "anna"));
  for (long id = 11; id <= 13; ++id) bench.come(task_of(id, "carla"));
  std::vector<long> seen;
  bench.turns.each([&](long id) {
    seen.push_back(id);
    if (id == 12) return Turns::Go::no_further;
    return id == 1 ? Turns::Go::past_user : Turns::Go::on;
  });
  EXPECT_EQ(seen, (std::vector<long>{1, 11, 12}));
}

}  // namespace
}  // namespace partita::queue
