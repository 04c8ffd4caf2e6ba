#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "forms/graph_forms.h"
#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

// Two kernels at the same time after a copy; names that need escaping.
struct Sample {
  GraphProblem problem;
  GraphRun run;

  Sample() {
    problem.name = "a <b> & \"c\"";
    run.driver = "sim";
    run.topology = hw::generic_topology(2, 4);
    run.lanes = 2;
    run.waits = {1, 2, 3};
    add("in & out", GraphTaskKind::copy, {0, 1'000, {}, -1, 0});
    add("<k1>", GraphTaskKind::lane, {1'000, 4'000, hw::UnitMask(0x33), 0, -1});
    add("k2", GraphTaskKind::lane, {1'000, 3'000, hw::UnitMask(0x44), 1, -1});
    problem.tasks[1].after = problem.tasks[2].after = {0};
  }

  void add(const std::string& name, GraphTaskKind kind, const GraphTaskRun& ran) {
    GraphTask& task = problem.tasks.emplace_back();
    task.name = name;
    task.kind = kind;
    run.tasks.push_back(ran);
  }
};

TEST(GraphForms, JsonHasTimesMasksAndWaits) {
  const Sample sample;
  GraphRun alone = sample.run;
  alone.tasks[2].end_ns = 8'000;
  const GraphResult result{sample.problem, sample.run, alone, 1e-7};
  const auto json = nlohmann::json::parse(graph_run_json(result));
  EXPECT_EQ(json["kind"], "GraphRun");
  EXPECT_EQ(json["time_us"], 4);
  EXPECT_EQ(json["critical_path_us"], 4);
  EXPECT_EQ(json["work_us"], 6);
  EXPECT_EQ(json["sequential_us"], 8);
  EXPECT_EQ(json["speed_up"], 2);
  EXPECT_EQ(json["dependencies"],
            (nlohmann::json{{"skipped", 1}, {"on_device", 2}, {"on_host", 3}}));
  EXPECT_EQ(json["critical_path"], (nlohmann::json{"in & out", "<k1>"}));
  EXPECT_EQ(json["tasks"][1]["mask_hex"], "0x33");
  EXPECT_EQ(json["tasks"][1]["units"], 4);
  EXPECT_EQ(json["tasks"][0]["thread"], 0);
  EXPECT_FALSE(json["tasks"][0].contains("lane"));
}

TEST(GraphForms, TextDrawsLanesAndThreads) {
  const Sample sample;
  const std::string text = graph_run_text({sample.problem, sample.run}, {false, 50});
  EXPECT_THAT(text, HasSubstr("lane 0   │··········[<k1>"));
  EXPECT_THAT(text, HasSubstr("thread 0 │[in & out─·····"));
  EXPECT_THAT(text, HasSubstr("4 us on 2x4 (8 units), 2 lanes and 1 thread, driver sim"));
  EXPECT_THAT(text, HasSubstr("critical path 4 us: in & out -> <k1>"));
  EXPECT_THAT(text, HasSubstr("1 need no wait, 2 waited for on the device, 3 on the host"));
}

TEST(GraphForms, SvgIsWellFormedAndLimited) {
  Sample sample;
  EXPECT_EQ(XmlCheck(graph_run_svg({sample.problem, sample.run})).run(), "");
  const std::string svg = graph_run_svg({sample.problem, sample.run});
  EXPECT_THAT(svg, HasSubstr("4 units of 2x4: mask 0x33\n2, 2 per"));
  EXPECT_EQ(svg.find("not drawn"), svg.npos);
  for (int i = 0; i < kMaxGraphBoxes; ++i)
    sample.add(fmt::format("t{}", i), GraphTaskKind::cpu, {0, 0, {}, -1, i});
  const std::string large = graph_run_svg({sample.problem, sample.run});
  EXPECT_EQ(XmlCheck(large).run(), "");
  EXPECT_THAT(large, HasSubstr("not drawn"));
  EXPECT_EQ(XmlCheck(graph_run_svg({GraphProblem{}, GraphRun{}})).run(), "");
}

}  // namespace
}  // namespace partita::forms
