#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include "forms/batch_forms.h"
#include "forms/batch_text.h"

namespace partita::forms {
namespace {

hw::GpuModel gpu(const char* name) { return *hw::builtin_catalogue().find(name); }
const std::vector<hw::GpuModel>& a30() {
  static const std::vector<hw::GpuModel> models{gpu("A30-24GB")};
  return models;
}
const std::vector<hw::GpuModel>& both() {
  static const std::vector<hw::GpuModel> models{gpu("A100-80GB"), gpu("A30-24GB")};
  return models;
}

constexpr Nanos kMilli = 1'000'000;

std::string tasks_refusal(std::string_view text, const std::vector<hw::GpuModel>& models = a30()) {
  const auto problem = parse_tasks("t.csv", text, models, {0});
  if (problem) return "accepted";
  EXPECT_EQ(problem.error().code, ErrorCode::bad_input);
  return to_string(problem.error());
}

TEST(Tasks, ReadsEveryColumn) {
  const auto problem = parse_tasks("t.csv",
                                   "after,task,time_s_1g,time_s_2g,time_s_4g,command,release_s,"
                                   "deadline_s,priority,time_s_7g,time_cv\n"
                                   ",lavaMD,,21.697,17.3214,\"./lavaMD -b 10, -x\",,,,9,\n"
                                   "lavaMD; nw;,huffman,0.314573,,,,0.5,100,2.5,,0.3\n"
                                   ",nw,0.79506,0.43174,0.501269,,0,,,7,0\n",
                                   a30(), {0, 0});
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->gpus, (std::vector<int>{0, 0}));
  ASSERT_EQ(problem->tasks.size(), 3U);
  const Task& lava = problem->tasks[0];
  EXPECT_EQ(lava.name, "lavaMD");
  EXPECT_EQ(lava.command, "./lavaMD -b 10, -x");
  SizeTimes times;
  times[2] = 21'697 * kMilli;
  times[4] = 17'321'400'000;  // the 7g column is for other GPUs
  EXPECT_EQ(lava.times, std::vector<SizeTimes>{times});
  EXPECT_EQ(lava.deadline, std::nullopt);
  EXPECT_EQ(lava.priority, 1);
  const Task& huffman = problem->tasks[1];
  EXPECT_EQ(huffman.after, (std::vector<std::string>{"lavaMD", "nw"}));
  EXPECT_EQ(huffman.release, 500 * kMilli);
  EXPECT_EQ(huffman.deadline, 100'000 * kMilli);
  EXPECT_EQ(huffman.priority, 2.5);
  EXPECT_EQ(huffman.time_cv, 0.3);
  EXPECT_EQ(lava.time_cv, 0);
  EXPECT_EQ(huffman.line, 3);
}

TEST(Tasks, AColumnForOneModelStandsInsteadOfTheCommonOne) {
  const auto problem = parse_tasks("t.csv",
                                   "task,time_s_1g,time_s_2g@a30-24gb,time_s_2g,time_s_4g@A30-24GB,"
                                   "time_s_3g@H100-80GB-PCIe\n"
                                   "a,4,2,1,0.5,7\n"
                                   "b,4,,1,,7\n",
                                   both(), {0, 1});
  ASSERT_TRUE(problem) << to_string(problem.error());
  const auto& a = problem->tasks[0].times;
  EXPECT_EQ(a[0][1], 4000 * kMilli);
  EXPECT_EQ(a[1][1], 4000 * kMilli);
  EXPECT_EQ(a[0][2], 1000 * kMilli);
  EXPECT_EQ(a[1][2], 2000 * kMilli);
  EXPECT_EQ(a[0][3], 0);  // the H100's column
  EXPECT_EQ(a[0][4], 0);
  EXPECT_EQ(a[1][4], 500 * kMilli);
  const auto& b = problem->tasks[1].times;
  EXPECT_EQ(b[0][2], 1000 * kMilli);
  EXPECT_EQ(b[1][2], 0);  // empty there: does not fit, whatever the common column says
}

struct MalformedTasks {
  const char* text;
  const char* refusal;
};

TEST(Tasks, RefusesColumns) {
  const MalformedTasks cases[] = {
      {"", "t.csv:1: empty file"},
      {"task,time_s_1g\n", "t.csv:1: no rows below the header"},
      {"tasks,time_s_1g\na,1\n", "t.csv:1: unknown column 'tasks'; did you mean 'task'?"},
      {"task,time_1g\na,1\n", "t.csv:1: unknown column 'time_1g'; did you mean 'time_s_1g'?"},
      {"task,time_s_1g,dead_line_s\na,1,1\n",
       "t.csv:1: unknown column 'dead_line_s'; did you mean 'deadline_s'?"},
      {"task,time_s_1g,colour\na,1,1\n", "t.csv:1: unknown column 'colour'"},
      {"time_s_1g\n1\n", "t.csv:1: column 'task' is missing"},
      {"\ntask,after\na,\n",
       "t.csv:2: no column with times, such as time_s_1g, time_s_2g, time_s_4g"},
      {"task,time_s_7g\na,1\n",
       "t.csv:1: no column with times, such as time_s_1g, time_s_2g, time_s_4g"},
      {"task,time_s_5g\na,1\n",
       "t.csv:1: column 'time_s_5g': no GPU has instances of 5 compute slices; time_s_1g, "
       "time_s_2g, time_s_4g wanted"},
      {"task,time_s_0g\na,1\n", "t.csv:1: unknown column 'time_s_0g'; did you mean 'time_s_1g'?"},
      {"task,time_s_2g@\na,1\n", "t.csv:1: unknown column 'time_s_2g@'; did you mean 'time_s_2g'?"},
      {"task,time_s_2g@A30-24G\na,1\n",
       "t.csv:1: column 'time_s_2g@A30-24G': unknown GPU model 'A30-24G'; did you mean "
       "'A30-24GB'?"},
      {"task,time_s_2g@A30-24GB,time_s_2g@a30-24gb\na,1,1\n",
       "t.csv:1: columns 'time_s_2g@A30-24GB' and 'time_s_2g@a30-24gb' mean the same"},
      {"task,time_s_1g,time_s_01g\na,1,1\n",
       "t.csv:1: columns 'time_s_1g' and 'time_s_01g' mean the same"},
      {"task,time_s_1g,task\na,1,b\n", "t.csv:1: column 'task' appears twice"},
  };
  for (const MalformedTasks& c : cases) EXPECT_EQ(tasks_refusal(c.text), c.refusal) << c.text;
}

TEST(Tasks, RefusesRows) {
  const MalformedTasks cases[] = {
      {",1,,,,,", "t.csv:3: task is empty"},
      {"b,,,,,,", "t.csv:3: task 'b' fits nowhere: no time in time_s_1g, time_s_2g"},
      {"b,0,,,,,",
       "t.csv:3: time_s_1g '0' must be above 0 and at most 10000000; leave it empty where the task "
       "does not fit"},
      {"b,-1,,,,,",
       "t.csv:3: time_s_1g '-1' must be above 0 and at most 10000000; leave it empty where the "
       "task does not fit"},
      {"b,1,1e8,,,,",
       "t.csv:3: time_s_2g '1e8' must be above 0 and at most 10000000; leave it empty where the "
       "task does not fit"},
      {"b,inf,1,,,,",
       "t.csv:3: time_s_1g 'inf' is not finite; leave it empty where the task does not fit"},
      {"b,fast,1,,,,",
       "t.csv:3: time_s_1g 'fast' is not a number; leave it empty where the task does not fit"},
      {"b,1e-10,1,,,,",
       "t.csv:3: time_s_1g '1e-10' is below half a nanosecond; leave it empty where the task does "
       "not fit"},
      {"b,1,,-1,,,", "t.csv:3: release_s '-1' must be at least 0 and at most 10000000"},
      {"b,1,,9,5,,", "t.csv:3: deadline_s '5' is before release_s '9'"},
      {"b,1,,,soon,,", "t.csv:3: deadline_s 'soon' is not a number"},
      {"b,1,,,,0,", "t.csv:3: priority '0' must be above 0 and at most 1000000"},
      {"b,1,,,,,step",
       "t.csv:3: 'after' of task 'b' names 'step', which is not a task of this file"},
      {"lavaNP,1,,,,,lavaMD",
       "t.csv:3: 'after' of task 'lavaNP' names 'lavaMD', which is not a task of this file; did "
       "you "
       "mean 'lavaNP'?"},
      {"b,1,,,,,a;b;a", "t.csv:3: 'after' names 'a' twice"},
      {"b,1,,,,,b", "t.csv:3: tasks wait for each other in a circle: b after b"},
      {"a,1,,,,,", "t.csv:3: task 'a' is already defined in line 2"},
      {"b,1", "t.csv:3: 2 cells, the header has 7"},
  };
  for (const MalformedTasks& c : cases)
    EXPECT_EQ(tasks_refusal(fmt::format(
                  "task,time_s_1g,time_s_2g,release_s,deadline_s,priority,after\na,1,,,,,\n{}\n",
                  c.text)),
              c.refusal)
        << c.text;
}

TEST(Tasks, NamesTheCircle) {
  EXPECT_EQ(tasks_refusal("task,time_s_1g,after\nstart,1,\nb,1,c\nc,1,start;d\nd,1,b\ne,1,d\n"),
            "t.csv:3: tasks wait for each other in a circle: b after c after d after b");
  std::string text = "task,time_s_1g,after\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("t{},1,t{}\n", i, (i + 1) % 100);
  EXPECT_EQ(tasks_refusal(text),
            "t.csv:2: tasks wait for each other in a circle: t0 after t1 after t2 after t3 after "
            "t4 after "
            "t5 after t6 after t7 after t8 after t9 after (89 more) after t99 after t0");
}

TEST(Tasks, BoundsTheSumOfTimes) {
  std::string text = "task,time_s_1g\n";
  for (int i = 0; i < 50; ++i) text += fmt::format("t{},1e7\n", i);
  EXPECT_EQ(tasks_refusal(text), "accepted");
  EXPECT_EQ(tasks_refusal(text + "one more,1e-9\n"),
            "t.csv:52: the times of the tasks up to here add up to more than 500000000 s");
}

// A chain as long as a batch may be: a walk with recursion or a quadratic check would not end here.
TEST(Tasks, ReadsAsManyAsThereMayBe) {
  std::string text = "task,time_s_1g,time_s_2g,time_s_4g,after\n";
  for (int i = 0; i < kMaxTasks; ++i)
    text += fmt::format("task {},12.5,7.25,4.125,{}\n", i,
                        i + 1 < kMaxTasks ? fmt::format("task {}", i + 1) : "");
  const auto problem = parse_tasks("t.csv", text, a30(), {0});
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->tasks.size(), static_cast<std::size_t>(kMaxTasks));
  EXPECT_EQ(tasks_refusal(text + "too many,1,1,1,\n"), "t.csv:100002: more than 100000 tasks");
}

// ---- written and read back ----

TEST(ExactSeconds, HasAllDigitsAndNoMore) {
  EXPECT_EQ(exact_seconds(0), "0");
  EXPECT_EQ(exact_seconds(21'697 * kMilli), "21.697");
  EXPECT_EQ(exact_seconds(100 * kNanosInSecond), "100");
  EXPECT_EQ(exact_seconds(-1), "-0.000000001");
  EXPECT_EQ(exact_seconds(kMaxBatchTime + 20), "500000000.00000002");
}

TEST(TasksCsv, WritesWhatIsNeededAlone) {
  const auto problem = parse_tasks("t.csv",
                                   "task,time_s_1g,time_s_2g@A30-24GB,time_s_4g@A100-80GB,"
                                   "time_s_7g,command,priority,after\n"
                                   "\"a,b\",1.50,2e-9,,3,,1,\nc,,1,4,,run,2,\"a,b\"\n",
                                   both(), {0});
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(tasks_csv(*problem),
            "task,time_s_1g,time_s_2g@A100-80GB,time_s_2g@A30-24GB,time_s_3g,time_s_4g@A100-80GB,"
            "time_s_4g@A30-24GB,time_s_7g,command,priority,after\n"
            "\"a,b\",1.5,,0.000000002,,,,3,,,\n"
            "c,,,1,,4,,,run,2,\"a,b\"\n");
}

Nanos any_task_time() {
  constexpr Nanos kExact = 2'000'000 * kNanosInSecond;
  return *rc::gen::element<Nanos>(1, 3, kExact, *rc::gen::inRange<Nanos>(1, kNanosInSecond),
                                  *rc::gen::inRange<Nanos>(1, kExact));
}

BatchProblem any_problem() {
  static const char* const kPieces[] = {"a", "\"", ",", " ", "é", "语", "#", "-", "="};
  BatchProblem problem{{}, both(), {0, 1}};
  const bool alike = *rc::gen::arbitrary<bool>();
  for (int i = 0, n = *rc::gen::inRange(1, 8); i < n; ++i) {
    Task task;
    for (int k = *rc::gen::inRange(0, 4); k > 0; --k)
      task.name += kPieces[*rc::gen::inRange<std::size_t>(0, 9)];
    task.name += fmt::format("x{}", i);
    for (std::size_t m = 0; m < 2; ++m) {
      task.times.emplace_back();
      for (const int size : sizes_of(problem.models[m]))
        if (*rc::gen::inRange(0, 4) > 0 || size == 1)
          task.times[m][size] = alike && m == 1 ? task.times[0][size] : any_task_time();
    }
    if (*rc::gen::arbitrary<bool>()) task.command = "run --it \"now\", " + task.name;
    if (*rc::gen::arbitrary<bool>()) task.release = any_task_time();
    if (*rc::gen::arbitrary<bool>()) task.deadline = task.release + any_task_time();
    if (*rc::gen::arbitrary<bool>()) task.priority = 1.0 / (1 + *rc::gen::inRange(0, 9));
    if (*rc::gen::arbitrary<bool>()) task.time_cv = *rc::gen::inRange(0, 101) / 10.0;
    if (i > 0 && *rc::gen::arbitrary<bool>() && !problem.tasks.back().name.starts_with(' '))
      task.after = {problem.tasks.back().name};
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

RC_GTEST_PROP(TasksCsv, ReadsBackToTheSameTasks, ()) {
  const BatchProblem problem = any_problem();
  const std::string text = tasks_csv(problem);
  const auto again = parse_tasks("t.csv", text, problem.models, problem.gpus);
  if (!again) RC_FAIL(to_string(again.error()));
  RC_ASSERT(again->tasks == problem.tasks);
  RC_ASSERT(tasks_csv(*again) == text);
}

// ---- warnings ----

TEST(TaskWarnings, NameWhatIsOdd) {
  const auto problem = parse_tasks("t.csv",
                                   "task,time_s_1g@A30-24GB,time_s_2g@A30-24GB,"
                                   "time_s_4g@A30-24GB,release_s,deadline_s\n"
                                   "nw,0.795,0.43174,0.501269,,\n"
                                   "lu,8.5,8.1,8.2,,\n"  // 1.2 %: measured so, left alone
                                   "late,5,4,,10,13.5\n"
                                   "in time,5,4,,10,14\n",
                                   both(), {0, 1});
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(
      task_warnings(*problem),
      (std::vector<std::string>{
          "task 'nw' in line 2 takes longer on 4g than on 2g of A30-24GB: 0.5013 s instead of "
          "0.4317 s",
          "task 'late' in line 4 cannot meet its deadline: released at 10 s, it runs for "
          "at least 4 s and must end by 13.5 s",
          "no task fits on A100-80GB"}));
}

TEST(TaskWarnings, AreFew) {
  std::string text = "task,time_s_1g,time_s_2g\n";
  for (int i = 0; i < 1000; ++i) text += fmt::format("t{},1,2\n", i);
  const auto problem = parse_tasks("t.csv", text, a30(), {0});
  ASSERT_TRUE(problem);
  const auto warnings = task_warnings(*problem);
  ASSERT_EQ(warnings.size(), 11U);
  EXPECT_EQ(warnings.back(), "990 more times that grow with the size");
}

}  // namespace
}  // namespace partita::forms
