#include "forms/picture.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/rng.h"
#include "base/testing/sight.h"
#include "forms/serving_forms.h"
#include "forms/svg_page.h"
#include "forms/testing/xml_check.h"

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
  plan.services = {
      {{.name = "bert", .rate = Rps{50}, .slo = Millis{6434}}, Rps{60}, Millis{5120.25}},
      {{.name = "<&>\"'", .rate = Rps{19.5}, .slo = Millis{205}}, Rps{20}, Millis{187.125}},
      {{.name = "日本語", .rate = Rps{0.125}, .slo = Millis{205}}, Rps{20}, Millis{12}}};
  plan.explanation = {"bert needs three instances"};
  plan.stats = {0.4217, 11.2, 1234};
  return plan;
}

const hw::Catalogue& picture_catalogue() { return hw::builtin_catalogue(); }

// The small plan with bert on the A30 predicted.
ServingPlan half_predicted() {
  ServingPlan plan = small_plan();
  plan.gpus[2].instances[0].predicted = plan.services[0].predicted = true;
  plan.gpus[2].instances[0].learned_on = "A100-80GB";
  return plan;
}

// ---- text ----

TEST(PlanText, MarksWhatIsPredicted) {
  const std::string text = plan_text(half_predicted(), picture_catalogue(), {.width = 200});
  EXPECT_NE(text.find("│bert 4g.24gb ~b8×2 "), text.npos);
  EXPECT_NE(text.find("│bert 4g.40gb b8×2 "), text.npos);
  EXPECT_NE(text.find(" ~5120 "), text.npos);
  const std::string narrow = plan_text(half_predicted(), picture_catalogue(), {.width = 20});
  EXPECT_NE(narrow.find("│~bert "), text.npos) << narrow;
  EXPECT_NE(
      text.find("\n~ 1 of 3 services rest on predictions, not on measurements: bert; by laws "
                "learned on A100-80GB, not on A30-24GB: measure there before you rely on it\n"),
      text.npos)
      << text;
  EXPECT_EQ(plan_text(small_plan(), picture_catalogue(), {}).find('~'), text.npos);
}

TEST(PlanSvg, MarksWhatIsPredicted) {
  const std::string svg = plan_svg(half_predicted(), picture_catalogue());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_NE(svg.find("predicted, not measured: a law learned on A100-80GB"), svg.npos);
  EXPECT_NE(svg.find("~b8×2<"), svg.npos);
  EXPECT_NE(svg.find(">~ 1 of 3 services rest on predictions, "), svg.npos);
  const std::string measured = plan_svg(small_plan(), picture_catalogue());
  EXPECT_EQ(measured.find("predicted, not"), svg.npos);
  EXPECT_EQ(measured.find("~"), svg.npos);
}

TEST(AdviceText, IsASentencePerService) {
  EXPECT_EQ(advice_text({}), "");
  EXPECT_EQ(advice_text({{"a", Millis{24}, Millis{20}, Millis{20}, 7, {{Millis{40}, 1}}}}),
            "a: the SLO is 1.2 x the fastest batch (20 ms); with 40 ms 1 GPU does, not 7\n");
  EXPECT_EQ(
      advice_text(
          {{"a", Millis{60}, Millis{20}, Millis{50}, 400, {{Millis{80}, 300}, {Millis{120}, 2}}}}),
      "a: the SLO is 1.2 x the least under this SLO rule (50 ms); with 80 ms 300 GPUs do, with "
      "120 ms 2\n    GPUs do, not 400\n");
}

TEST(PlanText, DrawsTheSmallPlan) {
  EXPECT_EQ(fmt::format("\n{}", plan_text(small_plan(), picture_catalogue(), {.explain = true})),
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
planner exact, SLO rule pooled
made for a pooled server: one queue per service over all its instances
planned in 0.4217 ms of CPU time after 11.2 ms for the capacities; 1234 search nodes

why:
  - bert needs three instances
)GOLD");
}

std::vector<std::string> picture_lines(const std::string& text) {
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
  const auto lines = picture_lines(plan_text(small_plan(), picture_catalogue(), {}));
  EXPECT_EQ(columns(lines[0]), columns(lines[1]));
  EXPECT_EQ(columns(lines[1]), columns(lines[2]));
  EXPECT_EQ(columns(lines[3]), columns(lines[4]));
}

TEST(PlanText, NoLineIsWiderThanTheTerminal) {
  ServingPlan plan = small_plan();
  for (const char* profile : {"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "7g.80gb"})
    plan.gpus.push_back({11, "A100-80GB", {on(profile, 0, "bert")}});
  plan.gpus.push_back({12, "unheard-of", {}});
  for (int i = 0; i < 60; ++i) plan.gpus.back().instances.push_back(on("x", i, "bert"));
  plan.services.push_back(
      {{.name = std::string(120, 'n'), .rate = Rps{123456}, .slo = Millis{6434}}, Rps{1e6}, {}});
  plan.explanation = {
      "a sentence of so many words that it cannot be written in one line of a small "
      "terminal, nor indeed in two such lines"};
  for (const int width : {80, 100, 200}) {
    const std::string text =
        plan_text(plan, picture_catalogue(), {.explain = true, .width = width});
    int widest = 0;
    for (const std::string& line : picture_lines(text)) widest = std::max(widest, columns(line));
    EXPECT_LE(widest, width) << text;
    EXPECT_GT(widest, width - 10) << "there is room:\n" << text;
    for (const char* part : {"1 × 1g.10gb+me", "1 × 7g.80gb", "60 × x", "indeed", "2 GPUs, 14"})
      EXPECT_NE(text.find(part), text.npos) << part << " at " << width;
  }
}

TEST(PlanText, StopsAtTheLimit) {
  const std::string text = plan_text(small_plan(), picture_catalogue(), {.max_gpus = 1});
  EXPECT_NE(text.find("GPU 0"), text.npos);
  EXPECT_EQ(text.find("GPU 1 "), text.npos);
  EXPECT_NE(text.find("... and 2 more GPUs\n"), text.npos);
  EXPECT_NE(text.find("... and 2 more services\n"), text.npos);
}

TEST(PlanText, ColoursOnlyWhenAsked) {
  const std::string plain = plan_text(small_plan(), picture_catalogue(), {});
  std::string coloured = plan_text(small_plan(), picture_catalogue(), {.colour = true});
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

int pieces_in(std::string_view text, std::string_view piece) {
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
  const std::string svg = plan_svg(small_plan(), picture_catalogue());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  EXPECT_EQ(pieces_in(svg, "<g class=\"instance on\">"), 5);
  EXPECT_EQ(pieces_in(svg, "<g class=\"legend\">"), 3);
  EXPECT_EQ(pieces_in(svg, "&lt;&amp;&gt;&quot;&#39;"),
            4);  // legend: fact and name; instance: fact and name
  EXPECT_NE(svg.find("receives 16.67 of the service's 50 requests/s"), svg.npos);
  EXPECT_NE(svg.find(">3 GPUs, 15 GPCs; lower bound 2 GPUs, 14 GPCs: not proven optimal<"),
            svg.npos);
}

TEST(PlanSvg, NumbersTheSlicesUnderTheBars) {
  const std::string svg = plan_svg(small_plan(), picture_catalogue());
  EXPECT_EQ(pieces_in(svg, "<g class=\"axis\""), 2);  // under the A100s, and under the A30
  EXPECT_EQ(pieces_in(svg, ">slice</text>"), 2);
  EXPECT_EQ(pieces_in(svg, ">3</text>"), 2);
  EXPECT_EQ(pieces_in(svg, ">7</text>"), 1);
  EXPECT_EQ(pieces_in(svg, ">8</text>"), 0);
}

ServingPlan wide_plan(int gpus, int services) {
  ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  for (int i = 0; i < gpus; ++i)
    plan.gpus.push_back({i, "A100-80GB", {on("7g.80gb", 0, fmt::format("s{}", i % services))}});
  for (int i = 0; i < services; ++i)
    plan.services.push_back(
        {{.name = fmt::format("s{}", i), .rate = Rps{1}, .slo = Millis{1}}, Rps{1}, Millis{1}});
  return plan;
}

TEST(PlanSvg, GoesOnOnFurtherPages) {
  EXPECT_EQ(plan_svg_pages(wide_plan(0, 1)), 1);
  EXPECT_EQ(plan_svg_pages(wide_plan(kSvgPageGpus, 1)), 1);
  const ServingPlan plan = wide_plan(2 * kSvgPageGpus + 3, kMaxSvgLegend + 5);
  ASSERT_EQ(plan_svg_pages(plan), 3);
  for (int page = 0; page < 3; ++page) {
    const std::string svg = plan_svg(plan, picture_catalogue(), page);
    EXPECT_EQ(XmlCheck(svg).run(), "");
    EXPECT_EQ(pieces_in(svg, "<g class=\"instance on\">"), page < 2 ? kSvgPageGpus : 3);
    EXPECT_EQ(pieces_in(svg, fmt::format("page {} of 3<", page + 1)), 1);
    EXPECT_EQ(pieces_in(svg, fmt::format(">GPU {}<", page * kSvgPageGpus)), 1);
    EXPECT_NE(svg.find("... and 5 more<"), svg.npos);
  }
  const ServingPlan too_many = wide_plan(kSvgPageGpus * kMaxSvgPages + 3, 1);
  EXPECT_EQ(plan_svg_pages(too_many), kMaxSvgPages);
  EXPECT_NE(plan_svg(too_many, picture_catalogue(), kMaxSvgPages - 1).find("... and 3 more GPUs"),
            std::string::npos);
}

TEST(PlanSvg, HatchesWhereColoursRunOut) {
  std::set<std::string> fills;
  for (int i = 0; i < kDistinctFills; ++i)
    EXPECT_TRUE(fills.insert(box_svg({0, 0, 9, 9}, fill_of(i))).second) << i;
  const std::string few = plan_svg(wide_plan(60, kDistinctColours), picture_catalogue());
  EXPECT_EQ(few.find("hatch"), few.npos);
  const std::string more = plan_svg(wide_plan(60, kDistinctColours + 1), picture_catalogue());
  EXPECT_EQ(XmlCheck(more).run(), "");
  EXPECT_EQ(pieces_in(more, "<pattern id=\"hatch1\""), 1);
  EXPECT_GE(pieces_in(more, "fill=\"url(#hatch1)\""), 2);  // the box and the legend
}

Rgb colour_of(std::string_view hex) {
  const auto channel = [&](std::size_t from) {
    return static_cast<int>(std::strtol(std::string(hex.substr(from, 2)).c_str(), nullptr, 16));
  };
  return {channel(1), channel(3), channel(5)};
}

// The colour that the style for dark screens gives to `fill`; black when it forgets it.
Rgb dark_twin(const std::string& svg, std::string_view fill) {
  const std::string rule = fmt::format(".partita [fill=\"{}\"] {{fill: ", fill);
  const std::size_t found = svg.find(rule);
  return found == svg.npos ? Rgb{}
                           : colour_of(std::string_view(svg).substr(found + rule.size(), 7));
}

TEST(PlanSvg, CanBeReadOnLightAndDarkScreens) {
  const std::string svg = plan_svg(small_plan(), picture_catalogue());
  EXPECT_EQ(pieces_in(svg, "@media (prefers-color-scheme: dark)"), 1);
  const Rgb page = dark_twin(svg, "#ffffff");
  EXPECT_LT(sight::luminance(page), 0.02);
  for (const char* text : {kInk, kFaint}) {
    EXPECT_GE(sight::contrast(colour_of(text), {255, 255, 255}), 4.5) << text;
    EXPECT_GE(sight::contrast(dark_twin(svg, text), page), 4.5) << text;
  }
  EXPECT_LT(sight::luminance(dark_twin(svg, kPageGround)), 0.03);
  for (int i = 0; i < kDistinctColours; ++i)  // boxes stay as they are
    EXPECT_GE(sight::contrast(distinct_colour(i), page), 3) << i;
  EXPECT_NE(svg.find(".partita .on text"), svg.npos);
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
  if (!names.empty())
    plan.services = {
        {{.name = names[0], .rate = Rps{1}, .slo = Millis{1}}, Rps{0}, Millis{INFINITY}}};
  const std::string svg = plan_svg(plan, picture_catalogue());
  RC_ASSERT(pieces_in(svg, "<g class=\"instance on\">") == instances);
  for (const std::string& text : {svg, plan_text(plan, picture_catalogue(), {})})
    for (const char c : text) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
}

// Steps of 2, 5 or 10 times a power of ten, no more of them than asked for and not many fewer.
TEST(AxisScales, AreRoundNumbersAroundTheValues) {
  Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    const double low = 2000 * rng.uniform() - 1000;
    const double high = low + std::pow(10, 8 * rng.uniform() - 4);
    const int steps = 4 + i % 2;
    const AxisScale scale = axis_scale(low, high, steps);
    const double least = (high - low) / steps, slack = 1e-9 * std::abs(low);
    EXPECT_GE(scale.step, least * (1 - 1e-9));
    EXPECT_LE(scale.step, 2.5 * least * (1 + 1e-9));
    EXPECT_LE(scale.low, low + slack);
    EXPECT_GT(scale.low, low - scale.step - slack);
    EXPECT_GE(scale.high, high - slack);
    EXPECT_LT(scale.high, high + scale.step + slack);
  }
  EXPECT_GT(axis_scale(3, 3, 5).high, 3);
}

}  // namespace
}  // namespace partita::forms
