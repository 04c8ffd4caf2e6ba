#include "queue/slurm/past_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/source_text.h"
#include "hw/catalogue.h"

namespace partita::slurm {
namespace {

constexpr plan::Nanos kS = plan::kNanosInSecond;

const hw::GpuModel& a100() { return *hw::builtin_catalogue().find("A100-80GB"); }

std::string corpus(const char* file) {
  return source_text(std::string("fuzz/corpus/slurm_jobs/") + file);
}

bool said(const ImportedTasks& tasks, std::string_view words) {
  return std::ranges::any_of(tasks.said, [&](const std::string& sentence) {
    return sentence.find(words) != std::string::npos;
  });
}

ImportedTasks imported(const std::string& text, std::optional<double> memory = {}) {
  const auto past = parse_sacct("sacct", text);
  EXPECT_TRUE(past) << to_string(past.error());
  const auto tasks = tasks_of(*past, a100(), memory);
  EXPECT_TRUE(tasks);
  return *tasks;
}

// Two jobs of one name, 600 s on 3 slices and 400 s on 7: by the law through both, time = 250 +
// 1050 / size, 512.5 s on 4. What is smaller has less memory than any that they ran on.
TEST(PastJobs, TimesByTheLawThroughTheSizesThatRan) {
  const ImportedTasks tasks = imported(corpus("week.txt"));
  ASSERT_EQ(tasks.problem.tasks.size(), 4u);
  const plan::Task& first = tasks.problem.tasks[0];
  EXPECT_EQ(first.name, "101");
  EXPECT_EQ(first.command, "sbatch train.sh");
  EXPECT_EQ(first.times[0][1], 0);
  EXPECT_EQ(first.times[0][2], 0);
  EXPECT_EQ(first.times[0][3], 600 * kS);
  EXPECT_NEAR(static_cast<double>(first.times[0][4]) / 1e9, 512.5, 1e-6);
  EXPECT_NEAR(static_cast<double>(first.times[0][7]) / 1e9, 400, 1e-6);
  const plan::Task& second = tasks.problem.tasks[1];
  EXPECT_EQ(second.command, "sbatch train.sh | tee log");
  EXPECT_EQ(second.release, 300 * kS);
  // By its mark on one slice, and no time: half a second, and on others by the usual share.
  EXPECT_EQ(tasks.problem.tasks[2].times[0][1], kS / 2);
  EXPECT_NEAR(static_cast<double>(tasks.problem.tasks[2].times[0][7]) / 1e9, 0.5 * (0.3 + 0.7 / 7),
              1e-6);
}

TEST(PastJobs, WhatIsLeftOutIsSaid) {
  const ImportedTasks tasks = imported(corpus("week.txt") + "1|2|3\n");
  for (const char* words :
       {"1 job had no GPU", "1 job had several GPUs", "left out (CANCELLED)",
        "taken for a whole A100-80GB (a100)", "1 job took less than a second",
        "8 times are left empty", "no dependencies", "1 rows have another number of cells"})
    EXPECT_TRUE(said(tasks, words)) << words;
}

TEST(PastJobs, MemoryThatIsEnoughOpensSmallerSizes) {
  const ImportedTasks tasks = imported(corpus("week.txt"), 9.0);
  EXPECT_FALSE(said(tasks, "left empty"));
  for (const plan::Task& task : tasks.problem.tasks) EXPECT_GT(task.times[0][1], 0) << task.name;
}

TEST(PastJobs, JsonOfSeveralVersions) {
  const ImportedTasks tasks = imported(corpus("week.json"));
  ASSERT_EQ(tasks.problem.tasks.size(), 1u);
  EXPECT_EQ(tasks.problem.tasks[0].name, "7");
  EXPECT_EQ(tasks.problem.tasks[0].times[0][2], 61 * kS);
  EXPECT_EQ(tasks.problem.tasks[0].times[0][1], 0);
  EXPECT_TRUE(said(tasks, "left out (TIMEOUT)"));
}

TEST(PastJobs, RefusalsSayWhatToAskFor) {
  const auto none = parse_sacct("s", "JobID|User\n1|a\n");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("sacct -P -o JobID"), std::string::npos);
  EXPECT_FALSE(parse_sacct("s", ""));
  EXPECT_FALSE(parse_sacct("s", "{\"jobs\": 3}"));
  EXPECT_FALSE(parse_sacct("s", "{\"jobs\": [{}]}"));
}

TEST(PastJobs, Elapsed) {
  EXPECT_EQ(parse_elapsed("1-02:03:04"), 93'784);
  EXPECT_EQ(parse_elapsed("02:03:04.5"), 7'384.5);
  EXPECT_EQ(parse_elapsed("03:04"), 184);
  for (const char* bad : {"", "4", "1-", "a:b", "-1:00", "1:2:3:4", "nan:1"})
    EXPECT_FALSE(parse_elapsed(bad)) << bad;
}

}  // namespace
}  // namespace partita::slurm
