#include "plan/terms.h"

#include <gtest/gtest.h>

#include <functional>

namespace partita::plan {
namespace {

// A difference that differences() does not name, or names wrongly, would be lost to the judge.
TEST(Terms, EveryTermIsNamedWhereTwoDiffer) {
  const Terms one{.name = "a", .model = "m", .rate = Rps{31530.174}, .slo = Millis{39.132}};
  const std::vector<std::tuple<std::string, std::function<void(Terms&)>, std::string>> changes{
      {"name", [](Terms& t) { t.name = "b"; }, "b"},
      {"model", [](Terms& t) { t.model = ""; }, ""},
      {"rate_rps", [](Terms& t) { t.rate = Rps{31530.1740000001}; }, "31530.1740000001"},
      {"slo_ms", [](Terms& t) { t.slo = Millis{39}; }, "39"},
      {"percentile", [](Terms& t) { t.percentile = 99.9; }, "99.9"},
      {"min_replicas", [](Terms& t) { t.min_replicas = 2; }, "2"},
      {"spread", [](Terms& t) { t.spread = true; }, "true"},
      {"avoid",
       [](Terms& t) {
         t.avoid = {"b", "c"};
       },
       "[b, c]"},
      {"headroom", [](Terms& t) { t.traffic.headroom = 0.1; }, "0.1"},
      {"arrivals", [](Terms& t) { t.traffic.arrivals = GammaArrivals{1.0000001}; },
       "gamma, cv 1.0000001"},
      {"rates",
       [](Terms& t) {
         t.traffic.rates = {{485, Rps{7.5}}};
       },
       "[08:05 7.5]"},
      {"cache",
       [](Terms& t) { t.cache = {.memory = Mib{64}, .ttl = Seconds{0.5}, .shared = true}; },
       "64 MiB, 0.5 s, shared"},
      {"priority", [](Terms& t) { t.priority = -3; }, "-3"},
      {"dispatch", [](Terms& t) { t.dispatch = Dispatch::shared_queue; }, "shared-queue"}};
  EXPECT_TRUE(differences(one, one).empty());
  for (const auto& [term, change, text] : changes) {
    Terms other = one;
    change(other);
    const std::vector<TermDifference> found = differences(one, other);
    ASSERT_EQ(found.size(), 1u) << term;
    EXPECT_EQ(found[0].term, term);
    EXPECT_EQ(found[0].other, text);
    EXPECT_FALSE(one == other) << term;
  }
  Terms elsewhere = one;
  elsewhere.line = 7;
  EXPECT_EQ(one, elsewhere);
}

TEST(Terms, AreAllSaidOnlyWithModelRateSloAndPercentile) {
  const Terms all{.name = "a", .model = "m", .rate = Rps{1}, .slo = Millis{1}};
  EXPECT_TRUE(all_said(all));
  for (const auto& forget : std::vector<std::function<void(Terms&)>>{
           [](Terms& t) { t.model.clear(); }, [](Terms& t) { t.rate = {}; },
           [](Terms& t) { t.slo = {}; }, [](Terms& t) { t.percentile = 0; }}) {
    Terms less = all;
    forget(less);
    EXPECT_FALSE(all_said(less));
  }
}

}  // namespace
}  // namespace partita::plan
