#include "forms/gantt.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include "base/testing/sight.h"
#include "base/unicode.h"
#include "forms/batch_forms.h"
#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using Op = Reconfiguration::Op;

constexpr Nanos kTenth = kNanosInSecond / 10;
const hw::Catalogue& catalogue() { return hw::builtin_catalogue(); }

// Ten seconds on an A30 in tenths of a second.
BatchSchedule gantt_schedule() {
  BatchSchedule s;
  s.scheduler = "far";
  s.gpu_models = {"A30-24GB"};
  s.tasks = {{{"2g.12gb", 0}, 0, "long one", 2 * kTenth, 50 * kTenth},
             {{"1g.6gb", 2}, 0, "<&>\"'", 4 * kTenth, 30 * kTenth},
             {{"1g.6gb", 2}, 0, "日本語の名前", 30 * kTenth, 51 * kTenth},
             {{"4g.24gb", 0}, 0, "all", 70 * kTenth, 100 * kTenth}};
  s.reconfigurations = {{{"2g.12gb", 0}, 0, Op::create, 0, 2 * kTenth},
                        {{"1g.6gb", 2}, 0, Op::create, 2 * kTenth, 4 * kTenth},
                        {{"2g.12gb", 0}, 0, Op::destroy, 60 * kTenth, 61 * kTenth},
                        {{"1g.6gb", 2}, 0, Op::destroy, 61 * kTenth, 62 * kTenth},
                        {{"4g.24gb", 0}, 0, Op::create, 62 * kTenth, 70 * kTenth}};
  put_in_order(s);
  s.lower_bound = 99 * kTenth;
  s.explanation = {"nothing is shorter"};
  s.stats = {0.25, 12};
  return s;
}

// ---- text ----

TEST(ScheduleText, DrawsTheSmallSchedule) {
  const std::string text = schedule_text(gantt_schedule(), {{"all", 88 * kTenth, 100 * kTenth}},
                                         catalogue(), {.width = 61, .explain = true});
  EXPECT_EQ(fmt::format("\n{}", text), R"GOLD(
GPU 0  A30-24GB
  slice 0 │+┌long one───────────────·····x++++┌all───────────
  slice 1 │+└4.8 s──────────────────·····x++++│3 s           
  slice 2 │·+[<&>"'───────[日本語…前 ·····x+++│              
  slice 3 │·······························++++└──────────────
          └─────────┴─────────┴─────────┴─────────┴─────────┴
          0         2         4         6         8        10 s
+ create  x destroy  * several

task          GPU  begin s   end s  time s  instance
long one        0    0.200   5.000   4.800  2g.12gb@0
<&>"'           0    0.400   3.000   2.600  1g.6gb@2
日本語の名前    0    3.000   5.100   2.100  1g.6gb@2
all             0    7.000  10.000   3.000  4g.24gb@0

makespan 10 s on 1 × A30-24GB (lower bound 9.9 s: at most 1.1 % above the optimum)
3 creates take 1.2 s, 2 destroys 200 ms; tasks keep 66 % of the compute slices busy
task all ends 1.2 s after its deadline
scheduler far, 0.25 ms of CPU time; 12 search nodes

why:
  - nothing is shorter
)GOLD");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

TEST(ScheduleText, IsAsWideAsTheTerminal) {
  for (const int width : {40, 41, 80, 100, 173, 400}) {
    const auto lines = lines_of(schedule_text(gantt_schedule(), {}, catalogue(), {.width = width}));
    for (std::size_t i = 1; i <= 4; ++i) EXPECT_EQ(columns(lines[i]), width) << lines[i];
    EXPECT_EQ(columns(lines[5]), width);
    EXPECT_LE(columns(lines[6]), width + 4);  // the last number stands around its tick
  }
}

TEST(ScheduleText, ColoursOnlyWhenAsked) {
  const std::string plain = schedule_text(gantt_schedule(), {}, catalogue(), {});
  std::string coloured = schedule_text(gantt_schedule(), {}, catalogue(), {.colour = true});
  EXPECT_EQ(plain.find('\x1b'), plain.npos);
  EXPECT_NE(coloured, plain);
  for (std::size_t at; (at = coloured.find('\x1b')) != coloured.npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, plain);
}

BatchSchedule many_tasks(int gpus, int tasks_each) {
  BatchSchedule s;
  for (int g = 0; g < gpus; ++g) {
    s.gpu_models.push_back("A30-24GB");
    for (int i = 0; i < tasks_each; ++i)
      s.tasks.push_back(
          {{"4g.24gb", 0}, g, fmt::format("t{}.{}", g, i), i * kTenth, (i + 1) * kTenth});
    s.reconfigurations.push_back({{"4g.24gb", 0}, g, Op::create, 0, 1});
  }
  put_in_order(s);
  return s;
}

TEST(ScheduleText, SaysHowMuchItLeavesOut) {
  const auto has = [](const std::string& text, std::string_view piece) {
    return text.find(piece) != text.npos;
  };
  const std::string text =
      schedule_text(many_tasks(kMaxTextGpus + 2, 5), {}, catalogue(), {.width = 100});
  EXPECT_TRUE(has(text, "GPU 15 "));
  EXPECT_FALSE(has(text, "GPU 16 "));
  EXPECT_TRUE(has(text, "\n... and 2 more GPUs\n"));
  EXPECT_TRUE(has(text, "\n... and 30 more tasks\n"));
  // 89 cells for 1,000 tasks; the create covers the first one's.
  EXPECT_TRUE(has(schedule_text(many_tasks(1, 1000), {}, catalogue(), {.width = 100}),
                  "\n912 tasks too short to be seen\n"));
  EXPECT_TRUE(has(
      schedule_text(gantt_schedule(), std::vector<LateTask>(63, {"t", 0, kTenth}), catalogue(), {}),
      "\n... and 3 more late tasks\n"));
}

// ---- sentences ----

TEST(MakespanText, SaysHowGoodItIs) {
  BatchSchedule s;
  s.gpu_models = {"A30-24GB", "A100-80GB", "A30-24GB"};
  s.makespan = 28'434'000'000;
  constexpr const char* kStart = "makespan 28.43 s on 2 × A30-24GB, 1 × A100-80GB ";
  const auto with = [&](Nanos bound, bool optimal) {
    s.lower_bound = bound;
    s.optimal = optimal;
    return makespan_text(s);
  };
  EXPECT_EQ(with(0, false), fmt::format("{}(no lower bound stated)", kStart));
  EXPECT_EQ(with(s.makespan, true), fmt::format("{}(lower bound 28.43 s: optimal)", kStart));
  EXPECT_EQ(with(s.makespan, false), fmt::format("{}(lower bound 28.43 s: optimal)", kStart));
  EXPECT_EQ(with(28'000'000'000, true), fmt::format("{}(lower bound 28 s: optimal)", kStart));
  // 1.55 % and 0.0035 % above: rounded up.
  EXPECT_EQ(with(28'000'000'000, false),
            fmt::format("{}(lower bound 28 s: at most 1.6 % above the optimum)", kStart));
  EXPECT_EQ(with(28'433'000'000, false),
            fmt::format("{}(lower bound 28.43 s: at most 0.01 % above the optimum)", kStart));
  EXPECT_EQ(with(14'217'000'000, false),
            fmt::format("{}(lower bound 14.22 s: at most 100 % above the optimum)", kStart));
}

TEST(Ticks, AreNice) {
  const auto in_seconds = [](Nanos end, int most) {
    std::vector<double> all;
    for (const Nanos tick : ticks(end, most)) all.push_back(seconds(tick).value);
    return all;
  };
  EXPECT_EQ(in_seconds(285 * kTenth, 10), (std::vector<double>{0, 5, 10, 15, 20, 25}));
  EXPECT_EQ(in_seconds(100 * kNanosInSecond, 10),
            (std::vector<double>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_EQ(in_seconds(3 * kTenth, 4), (std::vector<double>{0, 0.1, 0.2, 0.3}));
  EXPECT_EQ(ticks(1, 5), (std::vector<Nanos>{0, 1}));
  for (const Nanos end : {Nanos{1}, Nanos{999}, kTenth, 77 * kTenth, kMaxTaskTime, kMaxBatchTime}) {
    for (int most = 1; most < 40; ++most) {
      const auto all = ticks(end, most);
      EXPECT_LE(all.size(), static_cast<std::size_t>(most) + 1);
      EXPECT_LE(all.back(), end);
      // Not needlessly few: 2.5 is the largest step between two nice steps.
      if (end >= most) {
        EXPECT_GE(static_cast<double>(all.size()), most / 2.5) << end << " " << most;
      }
    }
  }
}

// ---- SVG ----

int count(std::string_view text, std::string_view piece) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(piece, at)) != text.npos; at += piece.size()) ++found;
  return found;
}

// A number attribute of the first element with this title.
double attribute(const std::string& svg, const std::string& title, const std::string& name) {
  const auto at = svg.find(" " + name + "=\"", svg.find("<title>" + title + "\n"));
  return at == svg.npos ? -1 : std::stod(svg.substr(at + name.size() + 3));
}

TEST(SchedulesSvg, DrawsEveryBoxOnceAndToScale) {
  const BatchSchedule schedule = gantt_schedule();
  BatchSchedule twice = schedule;
  twice.scheduler = "<slow>";
  twice.tasks.back().end = 200 * kTenth;
  put_in_order(twice);
  const std::string svg = schedules_svg({schedule, twice}, catalogue());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(count(svg, "<g class=\"task on\">"), 8);
  EXPECT_EQ(count(svg, "<g class=\"create\">"), 6);
  EXPECT_EQ(count(svg, "<g class=\"destroy\">"), 4);
  EXPECT_EQ(count(svg, "<path class=\"mark\""), 4);
  EXPECT_NE(svg.find(">&lt;slow&gt;<"), svg.npos);
  EXPECT_NE(svg.find(">makespan 20 s on 1 × A30-24GB (lower bound 9.9 s: at most 110 % above the "
                     "optimum)<"),
            svg.npos);
  EXPECT_NE(svg.find("<title>long one\n2g.12gb@0 on GPU 0\n0.2 s to 5 s: 4.8 s</title>"), svg.npos);
  EXPECT_NE(svg.find("<title>destroy 1g.6gb@2 on GPU 0\n6.1 s to 6.2 s: 0.1 s</title>"), svg.npos);
  // The common scale ends at 20 s: 1,040 pixels, so 4.8 s are 249.6; widths and places agree.
  EXPECT_NEAR(attribute(svg, "long one", "width"), 249.6, 0.01);
  EXPECT_NEAR(attribute(svg, "all", "width"), 156, 0.01);
  EXPECT_NEAR(attribute(svg, "all", "x") - attribute(svg, "long one", "x"), 6.8 * 52, 0.011);
  EXPECT_EQ(attribute(svg, "all", "height"), 2 * attribute(svg, "long one", "height"));
}

TEST(SchedulesSvg, KeepsInsideItsWidth) {
  BatchSchedule schedule = gantt_schedule();
  schedule.scheduler = std::string(128, 'W');
  for (int i = 0; i < 20; ++i) schedule.gpu_models.push_back(fmt::format("model {} of many", i));
  const std::string svg = schedules_svg({schedule}, catalogue());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(svg.find(schedule.scheduler), svg.npos);  // cut
}

TEST(SchedulesSvg, SaysHowMuchItLeavesOut) {
  const BatchSchedule wide = many_tasks(kMaxGanttGpus + 3, 2);
  const std::string gpus = schedules_svg({wide}, catalogue());
  EXPECT_EQ(XmlCheck(gpus).run(), "");
  EXPECT_EQ(count(gpus, "<g class=\"task on\">"), 2 * kMaxGanttGpus);
  EXPECT_NE(gpus.find(">not drawn: 3 GPUs, 6 tasks, 3 reconfigurations<"), gpus.npos);

  const std::string tasks = schedules_svg({many_tasks(1, kMaxGanttTasks + 7)}, catalogue());
  EXPECT_EQ(count(tasks, "<g class=\"task on\">"), kMaxGanttTasks);
  EXPECT_NE(tasks.find(">not drawn: 7 tasks<"), tasks.npos);

  const std::string many = schedules_svg(
      std::vector<BatchSchedule>(kMaxSvgSchedules + 4, gantt_schedule()), catalogue());
  EXPECT_EQ(count(many, "<g class=\"task on\">"), 4 * kMaxSvgSchedules);
  EXPECT_NE(many.find("... and 4 more schedules<"), many.npos);
  EXPECT_EQ(XmlCheck(schedules_svg({}, catalogue())).run(), "");
}

TEST(Colours, OfReconfigurationsDifferFromThoseOfTasks) {
  for (const Rgb& change : {kCreateColour, kDestroyColour}) {
    for (int i = 0; i < kDistinctColours; ++i)
      EXPECT_GE(sight::distance(change, distinct_colour(i)), 11) << i;
  }
  EXPECT_GE(sight::distance(kCreateColour, kDestroyColour), 30);
}

// ---- any schedule, right or wrong ----

RC_GTEST_PROP(ScheduleForms, DrawAnySchedule, (const std::vector<std::string>& names)) {
  static const char* const kModels[] = {"A100-80GB", "A30-24GB", "no such GPU"};
  static const char* const kProfiles[] = {"1g.10gb", "3g.40gb", "7g.80gb", "9g.90gb"};
  const auto number = [] { return *rc::gen::element(0, 1, 4, 7, 1000, -3, 2'147'483'647); };
  const auto time = [] {
    return *rc::gen::element<Nanos>(0, 1, kTenth, 77 * kTenth, kMaxBatchTime, -5, INT64_MAX,
                                    INT64_MIN);
  };
  BatchSchedule s;
  if (!names.empty()) s.scheduler = names[0];
  for (int g = *rc::gen::inRange(0, 4); g > 0; --g)
    s.gpu_models.push_back(kModels[*rc::gen::inRange<std::size_t>(0, 3)]);
  for (const std::string& name : names) {
    s.tasks.push_back({{kProfiles[*rc::gen::inRange<std::size_t>(0, 4)], number()},
                       number(),
                       name,
                       time(),
                       time()});
    s.reconfigurations.push_back(
        {{name, number()}, number(), *rc::gen::element(Op::create, Op::destroy), time(), time()});
  }
  s.makespan = time();
  s.lower_bound = time();
  const std::vector<LateTask> late(names.size(), {"x", time(), time()});
  const std::string svg = schedules_svg({s, s}, catalogue());
  std::string legible = svg;  // without what stands for bytes that are no text
  for (std::size_t at; (at = legible.find("\uFFFD")) != legible.npos;) legible.erase(at, 3);
  RC_ASSERT(XmlCheck(legible).run() == "");
  RC_ASSERT(count(svg, "<g class=\"task on\">") == 2 * static_cast<int>(names.size()));
  const GanttOptions options{.width = number()};
  for (const std::string& text : {svg, schedule_text(s, late, catalogue(), options)})
    for (const char c : text) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
}

}  // namespace
}  // namespace partita::forms
