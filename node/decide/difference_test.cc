#include "decide/difference.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/document.h"
#include "base/rng.h"
#include "forms/serving_forms.h"

namespace partita::decide {
namespace {

using Key = std::tuple<int, int, std::string>;

plan::ServingPlan some_plan(Rng& rng) {
  plan::ServingPlan plan;
  for (int gpu = 0; gpu < 3; ++gpu) {
    plan.gpus.push_back({gpu, "A100-80GB", {}});
    for (int start = 0; start < 3; ++start) {
      if (rng.below(3) == 0) continue;
      plan.gpus.back().instances.push_back(
          {rng.below(4) == 0 ? "1g.10gb" : "1g.20gb", start, rng.below(2) == 0 ? "chat" : "search",
           1 + static_cast<int>(rng.below(2)), 1, Rps{9}, Millis{1}});
    }
  }
  for (const char* name : {"chat", "search", "seldom"})
    if (rng.below(4) != 0)
      plan.services.push_back(
          {{.name = name, .rate = Rps{1.0 + static_cast<double>(rng.below(3))}, .slo = Millis{100}},
           Rps{10.0 + static_cast<double>(rng.below(2))},
           Millis{5}});
  return plan;
}

std::map<Key, std::string> tenants(const plan::ServingPlan& plan) {
  std::map<Key, std::string> found;
  for (const auto& gpu : plan.gpus)
    for (const auto& one : gpu.instances)
      found[{gpu.index, one.start, one.profile}] =
          one.service + " b" + std::to_string(one.batch) + "x" + std::to_string(one.processes);
  return found;
}

Compared side(const std::string& name, const plan::ServingPlan& plan) {
  return {name, plan, plan.services};
}

TEST(Difference, LeadsFromOneToTheOther) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    const plan::ServingPlan a = some_plan(rng), b = rng.below(10) == 0 ? a : some_plan(rng);
    const auto found = difference(side("a", a), side("b", b));
    ASSERT_TRUE(found);
    auto now = tenants(a);
    for (const InstanceDifference& one : found->instances) {
      const Key key{one.gpu, one.start, one.profile};
      EXPECT_EQ(now.contains(key) ? now[key] : "", one.before);
      EXPECT_NE(one.before, one.after);
      if (one.after.empty()) {
        now.erase(key);
      } else {
        now[key] = one.after;
      }
    }
    EXPECT_EQ(now, tenants(b));
    EXPECT_EQ(found->empty(), tenants(a) == tenants(b) && a.services == b.services);
    EXPECT_EQ(found->changes, plan::changes_between(a, b));
    const auto back = difference(side("b", b), side("a", a));
    EXPECT_EQ(back->instances.size(), found->instances.size());
    EXPECT_EQ(back->services.size(), found->services.size());
    const auto document = parse_document("d.json", difference_json(*found));
    ASSERT_TRUE(document) << to_string(document.error());
    const auto& items = document->root.find("instances")->items;
    ASSERT_EQ(items.size(), found->instances.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto text = [&](const char* key) { return items[i].find(key)->text; };
      const InstanceDifference& one = found->instances[i];
      EXPECT_EQ(integer_member(*document, items[i], "gpu").value(), one.gpu);
      EXPECT_EQ(integer_member(*document, items[i], "start").value(), one.start);
      EXPECT_EQ(std::tuple(text("profile"), text("before"), text("after")),
                std::tuple(one.profile, one.before, one.after));
    }
    EXPECT_EQ(document->root.find("services")->items.size(), found->services.size());
  }
}

plan::PlannedService row(const std::string& name, Rps rate, Rps planned, Millis slo) {
  return {{.name = name, .model = "m", .rate = rate, .slo = slo}, planned};
}

TEST(Difference, NamesServicesAndTheirTerms) {
  Compared a{.name = "a"}, b{.name = "b"};
  a.services = {row("chat", Rps{120}, Rps{0}, Millis{100}), row("old", Rps{1}, {}, Millis{1})};
  b.services = {row("chat", Rps{260}, Rps{300}, Millis{90}), row("new", Rps{1}, {}, Millis{1})};
  b.services->front().percentile = 99.9;
  const auto found = difference(a, b);
  ASSERT_TRUE(found);
  // Nothing is said of planned_rps: a services file does not know it.
  const std::vector<ServiceDifference> expected{{"chat", "rate_rps", "120", "260"},
                                                {"chat", "slo_ms", "100", "90"},
                                                {"chat", "percentile", "99", "99.9"},
                                                {"new", "service", "", "there"},
                                                {"old", "service", "there", ""}};
  EXPECT_EQ(found->services, expected);
  EXPECT_FALSE(found->changes);
  const std::string text = difference_text(*found);
  EXPECT_NE(text.find("a -> b\n"), text.npos);
  EXPECT_NE(text.find("260"), text.npos);
  EXPECT_EQ(difference_text(*difference(a, a)), "a and a: no difference\n");
}

TEST(Difference, NumbersHaveTheDigitsThatTellThemApart) {
  const auto between = [](double one, double other) {
    Compared a{.name = "a"}, b{.name = "b"};
    a.services = {row("chat", Rps{one}, {}, Millis{100})};
    b.services = {row("chat", Rps{other}, {}, Millis{100})};
    return difference(a, b)->services;
  };
  using Found = std::vector<ServiceDifference>;
  EXPECT_EQ(between(622.2090275013785, 353), (Found{{"chat", "rate_rps", "622.209", "353"}}));
  EXPECT_EQ(between(1.00000001, 1.00000002),
            (Found{{"chat", "rate_rps", "1.00000001", "1.00000002"}}));
}

TEST(Difference, SidesAreReadByWhatTheyAre) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  const auto services =
      read_side("s.yaml", "services: [{name: a, model: m, rate_rps: 5, slo_ms: 100}]", catalogue);
  ASSERT_TRUE(services) << to_string(services.error());
  EXPECT_FALSE(services->plan);
  EXPECT_EQ(services->services->at(0).rate, Rps{5});
  const auto state =
      read_side("n.json",
                R"({"api_version": "partita/v1", "kind": "NodeState", "gpus": [{"index": 0, "model":
         "A100-80GB", "instances": [{"profile": "1g.10gb", "start": 2, "service": "a", "batch": 4,
         "processes": 2}]}]})",
                catalogue);
  ASSERT_TRUE(state) << to_string(state.error());
  EXPECT_FALSE(state->services);
  EXPECT_EQ(state->plan->gpus.at(0).instances.at(0).batch, 4);
  EXPECT_EQ(difference(*services, *state).error().code, ErrorCode::bad_input);
  EXPECT_FALSE(read_side("x.json", R"({"kind": "Change"})", catalogue));
}

}  // namespace
}  // namespace partita::decide
