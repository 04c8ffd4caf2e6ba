// The examples in docs/formats.md are read as a user would have them read.
#include <gtest/gtest.h>

#include "base/source_text.h"
#include "forms/batch_forms.h"
#include "forms/day_forms.h"
#include "forms/graph_forms.h"
#include "forms/kernel_forms.h"
#include "forms/power_forms.h"
#include "forms/serving_forms.h"
#include "forms/traffic_forms.h"
#include "profile/readers.h"

namespace partita::forms {
namespace {

// The first code block in `language` below a heading.
std::string example(const std::string& heading, const std::string& language) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = std::string("```") + language + "\n";
  const auto begin = text.find(open, text.find("\n## " + heading + "\n"));
  if (begin == text.npos) return "";
  return text.substr(begin + open.size(), text.find("```\n", begin + 1) - begin - open.size());
}

TEST(FormatsDoc, ServicesExampleIsRead) {
  const auto services = parse_services("formats.md", example("Services", "yaml"));
  ASSERT_TRUE(services) << to_string(services.error());
  ASSERT_EQ(services->size(), 2U);
  EXPECT_EQ(services->at(1).avoid, std::vector<std::string>{"chat"});
  EXPECT_EQ(services->at(1).percentile, 95);
}

TEST(FormatsDoc, ProfilesExampleIsRead) {
  const auto table = profile::parse_native_csv("formats.md", example("Profiles", "csv"));
  ASSERT_TRUE(table) << to_string(table.error());
  const profile::WorkloadProfile& bert = table->at("bert");
  ASSERT_EQ(bert.points.size(), 2U);
  EXPECT_FALSE(bert.points[0].predicted());
  EXPECT_EQ(bert.points[1].learned_on, "A30-24GB");
  EXPECT_EQ(bert.no_runs, (std::vector<profile::NoRun>{{1, 32, 2}}));
}

TEST(FormatsDoc, TrafficExampleIsRead) {
  const auto services = parse_services("formats.md", example("Traffic", "yaml"));
  ASSERT_TRUE(services) << to_string(services.error());
  ASSERT_EQ(services->size(), 6U);
  const auto traffic = [&](std::size_t s) { return services->at(s).traffic; };
  EXPECT_EQ(traffic(0), (plan::Traffic{0.2, plan::GammaArrivals{2}, {}}));
  EXPECT_EQ(traffic(1).arrivals, plan::Arrivals{(plan::BurstArrivals{{3, 5, 60}})});
  EXPECT_EQ(traffic(2), (plan::Traffic{0, plan::MmppArrivals{{4, 2, 20}}, {}}));
  EXPECT_EQ(traffic(3).arrivals, plan::Arrivals{(plan::TraceArrivals{"traffic.csv", "", nullptr})});
  EXPECT_EQ(traffic(4).rates, (std::vector<plan::RateAt>{{480, Rps{120}}, {1200, Rps{40}}}));
  EXPECT_EQ(services->at(4).rate, Rps{120});
  EXPECT_EQ(traffic(5).rates, (std::vector<plan::RateAt>{{390, Rps{90}}, {1320, Rps{27}}}));
  const auto trace =
      parse_traffic_trace("formats.md", example("Traffic", "csv"), {services->at(3).name, true});
  ASSERT_TRUE(trace) << to_string(trace.error());
  EXPECT_EQ(trace->per_minute, (std::vector<double>{130, 128, 0, 144}));
}

TEST(FormatsDoc, SparesExampleIsRead) {
  const auto file = parse_services_file("formats.md", example("Spares", "yaml"));
  ASSERT_TRUE(file) << to_string(file.error());
  EXPECT_EQ(file->services.size(), 2U);
  EXPECT_EQ(file->survive, 1);
}

TEST(FormatsDoc, DayExampleIsRead) {
  const auto day = parse_day("formats.md", example("Plan for a day", "json"));
  ASSERT_TRUE(day) << to_string(day.error());
  ASSERT_EQ(day->periods.size(), 2U);
  EXPECT_EQ(day->periods[1].to, 480);
  for (std::size_t p = 0; p < 2; ++p)
    EXPECT_EQ(day->changes[1 - p].changes,
              plan::changes_between(day->periods[p].plan, day->periods[1 - p].plan));
}

TEST(FormatsDoc, PlanExampleIsRead) {
  const auto plan = parse_plan("formats.md", example("Plan", "json"));
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->gpus.at(0).instances.at(1).service, "search");
  EXPECT_TRUE(plan->objective.optimal);
  EXPECT_EQ(plan->stats.nodes, 12);
  EXPECT_TRUE(plan->services.at(0).predicted);
  EXPECT_EQ(plan->gpus[0].instances[0].learned_on, "A30-24GB");
  EXPECT_EQ(plan->rule, SloRule{});
}

// The table under "Dispatch" names every server with the rule that it has.
TEST(FormatsDoc, EveryServerStandsWithItsRule) {
  const std::string text = source_text("docs/formats.md");
  const auto begin = text.find("\n### Dispatch\n"), end = text.find("\n## Plan for a day\n");
  ASSERT_LT(begin, end);
  const std::string section = text.substr(begin, end - begin);
  for (const auto server : {plan::Dispatch::pooled, plan::Dispatch::paced,
                            plan::Dispatch::shared_queue, plan::Dispatch::per_process}) {
    const auto row = section.find("\n| `" + to_string(server) + "` |");
    ASSERT_NE(row, section.npos) << to_string(server);
    const std::string line = section.substr(row + 1, section.find('\n', row + 1) - row - 1);
    const auto last = line.rfind(" | `");
    EXPECT_EQ(line.substr(last), " | `" + to_string(plan::rule_for(server)) + "` |") << line;
  }
}

TEST(FormatsDoc, TasksExampleIsRead) {
  const std::vector<hw::GpuModel> models{*hw::builtin_catalogue().find("A30-24GB")};
  const auto problem = parse_tasks("formats.md", example("Batch", "csv"), models, {0});
  ASSERT_TRUE(problem) << to_string(problem.error());
  ASSERT_EQ(problem->tasks.size(), 3U);
  EXPECT_EQ(problem->tasks[0].times[0][1], 0);
  EXPECT_EQ(problem->tasks[0].command, "./lavaMD -boxes1d 10");
  EXPECT_EQ(problem->tasks[1].deadline, nanos({30}));
  EXPECT_EQ(problem->tasks[1].priority, 2);
  EXPECT_EQ(problem->tasks[2].release, nanos({5}));
  EXPECT_EQ(problem->tasks[2].after, (std::vector<std::string>{"lavaMD", "huffman"}));
}

TEST(FormatsDoc, ScheduleExampleIsRead) {
  const auto schedule = parse_schedule("formats.md", example("Schedule", "json"));
  ASSERT_TRUE(schedule) << to_string(schedule.error());
  EXPECT_EQ(schedule->tasks.at(0).task, "lavaMD");
  EXPECT_EQ(schedule->reconfigurations.at(1).start, 2);
  EXPECT_EQ(schedule->makespan, schedule->tasks[0].end);
  EXPECT_TRUE(schedule->optimal);
}

TEST(FormatsDoc, KernelPlanExampleIsReadAndWrittenAsItStands) {
  const std::string text = example("Masks and kernel plans", "json");
  const auto plan = forms::parse_kernel_plan("formats.md", text);
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->workers.at(1).predicted_us, 28);
  EXPECT_EQ(forms::kernel_plan_json(*plan), text);
}

TEST(FormatsDoc, PowerExamplesAreReadAndWrittenAsTheyStand) {
  const auto table = parse_power_table("formats.md", example("Power", "csv"), {"MI50", {30, 30}});
  ASSERT_TRUE(table) << to_string(table.error());
  EXPECT_EQ(power_table_csv(*table), example("Power", "csv"));
  EXPECT_TRUE(table->modelled);
  const std::string text = example("Power", "json");
  const auto plan = parse_power_plan("formats.md", text);
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(power_plan_json(*plan), text);
}

TEST(FormatsDoc, TaskGraphExampleIsRead) {
  const auto graph = parse_graph("formats.md", example("Task graphs", "yaml"), {"fair", "packed"});
  ASSERT_TRUE(graph) << to_string(graph.error());
  ASSERT_EQ(graph->tasks.size(), 4U);
  EXPECT_EQ(graph->tasks[0].bytes, 4e6);
  EXPECT_EQ(graph->tasks[3].after, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace partita::forms
