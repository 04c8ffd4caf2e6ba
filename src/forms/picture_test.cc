#include "forms/picture.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forms/serving_forms.h"
#include "forms/xml_check.h"

namespace partita::forms {
namespace {

PlannedInstance on(const std::string& profile, int start, const std::string& service) {
  return {profile, start, service, 8, 2, Rps{20}, Millis{310.5}};
}

ServingPlan small_plan() {
  ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  plan.planner = "exact";
  plan.objective = {3, 15, 3, 2, 14, 2, false};
  plan.gpus = {{0, "A100-80GB", {on("4g.40gb", 0, "bert"), on("3g.40gb", 4, "<&>\"'")}},
               {1, "A100-80GB", {on("1g.10gb", 1, "bert"), on("2g.20gb", 4, "日本語")}},
               {10, "A30-24GB", {on("4g.24gb", 0, "bert")}}};
  plan.services = {{"bert", Rps{50}, Rps{60}, Millis{6434}, Millis{5120.25}},
                   {"<&>\"'", Rps{19.5}, Rps{20}, Millis{205}, Millis{187.125}},
                   {"日本語", Rps{0.125}, Rps{20}, Millis{205}, Millis{12}}};
  plan.explanation = {"bert needs three instances"};
  plan.stats = {0.4217, 11.2, 1234};
  return plan;
}

const hw::Catalogue& catalogue() { return hw::builtin_catalogue(); }

// ---- text ----

TEST(PlanText, DrawsTheSmallPlan) {
  EXPECT_EQ(fmt::format("\n{}", plan_text(small_plan(), catalogue(), {.explain = true})),
            R"GOLD(
A100-80GB ┌0─────────┬1─────────┬2─────────┬3─────────┬4─────────┬5─────────┬6─────────┬7─────────┐
GPU 0     │bert 4g.40gb b8×2                          │<&>"' 3g.40gb b8×2                         │
GPU 1     │··········│bert b8×2 │·····················│日本語 2g.20gb b8×2  │·····················│
A30-24GB  ┌0────────────────────┬1────────────────────┬2────────────────────┬3────────────────────┐
GPU 10    │bert 4g.24gb b8×2                                                                      │

service  rate/s  planned/s   slack  SLO ms  latency ms  instances
bert         50         60   20.0%    6434        5120  3: 1 × 1g.10gb, 1 × 4g.24gb, 1 × 4g.40gb
<&>"'      19.5         20    2.6%     205       187.1  1: 1 × 3g.40gb
日本語    0.125         20  15900%     205          12  1: 1 × 2g.20gb

3 GPUs, 15 GPCs; lower bound 2 GPUs, 14 GPCs: not proven optimal
planner exact, SLO rule queueing
planned in 0.4217 ms of CPU time after 11.2 ms for the capacities; 1234 search nodes

why:
  - bert needs three instances
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

TEST(PlanText, EveryBarOfAModelIsEquallyWide) {
  const auto lines = lines_of(plan_text(small_plan(), catalogue(), {}));
  EXPECT_EQ(columns(lines[0]), columns(lines[1]));
  EXPECT_EQ(columns(lines[1]), columns(lines[2]));
  EXPECT_EQ(columns(lines[3]), columns(lines[4]));
}

TEST(PlanText, StopsAtTheLimit) {
  const std::string text = plan_text(small_plan(), catalogue(), {.max_gpus = 1});
  EXPECT_NE(text.find("GPU 0"), text.npos);
  EXPECT_EQ(text.find("GPU 1 "), text.npos);
  EXPECT_NE(text.find("... and 2 more GPUs\n"), text.npos);
  EXPECT_NE(text.find("... and 2 more services\n"), text.npos);
}

TEST(PlanText, ColoursOnlyWhenAsked) {
  const std::string plain = plan_text(small_plan(), catalogue(), {});
  std::string coloured = plan_text(small_plan(), catalogue(), {.colour = true});
  EXPECT_EQ(plain.find('\x1b'), plain.npos);
  EXPECT_NE(coloured, plain);
  for (std::size_t at; (at = coloured.find('\x1b')) != coloured.npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, plain);
}

TEST(Objective, SaysWhatIsProven) {
  EXPECT_EQ(objective_text({12, 82, 12, 12, 82, 12, true}),
            "12 GPUs, 82 GPCs; lower bound 12 GPUs, 82 GPCs: optimal");
  EXPECT_EQ(objective_text({1, 7, 3.5, 1, 0, 3.25, false}),
            "1 GPU, 7 GPCs, cost 3.5; lower bound 1 GPU, cost 3.25: not proven optimal");
  EXPECT_EQ(objective_text({2, 9, 2, 0, 0, 0, false}), "2 GPUs, 9 GPCs; no lower bound stated");
}

// ---- SVG ----

int count(std::string_view text, std::string_view piece) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(piece, at)) != text.npos; at += piece.size()) ++found;
  return found;
}

TEST(XmlCheck, FindsFaults) {
  EXPECT_EQ(XmlCheck("<a x=\"1\"><b/>t&amp;</a>\n").run(), "");
  for (const char* broken : {"<a></b>\n", "<a>\n", "<a x=1/>\n", "<a x=\"<\"/>\n", "<a>&</a>\n",
                             "<a>&nbsp;</a>\n", "<a/>more", "<a><b></a></b>\n", "<a>\x01</a>\n"})
    EXPECT_NE(XmlCheck(broken).run(), "") << broken;
}

TEST(PlanSvg, DrawsEveryInstanceOnce) {
  const std::string svg = plan_svg(small_plan(), catalogue());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(count(svg, "<g class=\"instance\">"), 5);
  EXPECT_EQ(count(svg, "<g class=\"legend\">"), 3);
  EXPECT_EQ(count(svg, "&lt;&amp;&gt;&quot;&#39;"),
            4);  // legend: fact and name; instance: fact and name
  EXPECT_NE(svg.find("receives 16.67 of the service's 50 requests/s"), svg.npos);
  EXPECT_NE(svg.find(">3 GPUs, 15 GPCs; lower bound 2 GPUs, 14 GPCs: not proven optimal<"),
            svg.npos);
}

TEST(PlanSvg, SaysHowManyItLeavesOut) {
  ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  for (int i = 0; i < kMaxSvgGpus + 3; ++i)
    plan.gpus.push_back({i, "A100-80GB", {on("7g.80gb", 0, fmt::format("s{}", i))}});
  for (int i = 0; i < kMaxSvgLegend + 5; ++i)
    plan.services.push_back({fmt::format("s{}", i), Rps{1}, Rps{1}, Millis{1}, Millis{1}});
  const std::string svg = plan_svg(plan, catalogue());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(count(svg, "<g class=\"instance\">"), kMaxSvgGpus);
  EXPECT_NE(svg.find("... and 3 more GPUs"), svg.npos);
  EXPECT_NE(svg.find("... and 5 more<"), svg.npos);
}

// ---- any plan, right or wrong ----

RC_GTEST_PROP(Pictures, DrawAnyPlan, (const std::vector<std::string>& names)) {
  static const char* const kModels[] = {"A100-80GB", "A30-24GB", "no such GPU"};
  static const char* const kProfiles[] = {"1g.10gb", "3g.40gb", "7g.80gb", "9g.90gb"};
  ServingPlan plan;
  int instances = 0;
  for (int g = *rc::gen::inRange(0, 5); g > 0; --g) {
    plan.gpus.push_back({g, kModels[*rc::gen::inRange<std::size_t>(0, 3)], {}});
    for (const std::string& name : names) {
      plan.gpus.back().instances.push_back(
          on(kProfiles[*rc::gen::inRange<std::size_t>(0, 4)],
             *rc::gen::element(0, 1, 4, 7, 1000, -3, 2'147'483'647), name));
      ++instances;
    }
  }
  if (!names.empty()) plan.services = {{names[0], Rps{1}, Rps{0}, Millis{1}, Millis{INFINITY}}};
  const std::string svg = plan_svg(plan, catalogue());
  RC_ASSERT(count(svg, "<g class=\"instance\">") == instances);
  for (const std::string& text : {svg, plan_text(plan, catalogue(), {})})
    for (const char c : text) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
}

}  // namespace
}  // namespace partita::forms
