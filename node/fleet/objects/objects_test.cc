#include "fleet/objects/objects.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/test_rounds.h"
#include "fleet/objects/keeper.h"
#include "fleet/objects/testing/fake_kube_api.h"

namespace partita::dra {
namespace {

constexpr int kSeeds = 300, kPlans = 4, kRounds = 3000;

using Pods = std::map<std::string, int>;   // by kind of instances, "chat-u2"
using Plan = std::map<std::string, Pods>;  // by service

std::string item(const char* version, const char* kind, const std::string& name,
                 const std::string& spec) {
  const bool shared = std::string_view(kind) == "DeviceClass";
  return fmt::format(
      R"({{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{}","labels":{{"{}":"partita"{}}}}},)"
      R"("spec":{}}})",
      version, kind, name, kManagedBy, shared ? "" : fmt::format(R"(,"{}":"p")", kPlan), spec);
}

std::vector<KubeObject> objects_of(const Plan& plan) {
  std::string items = item("resource.k8s.io/v1", "DeviceClass", "a100", R"({"selectors":[1,2]})");
  for (const auto& [service, pods] : plan) {
    items += "," + item("v1", "Service", service, R"({"ports":[{"port":80}]})");
    items += "," + item("policy/v1", "PodDisruptionBudget", service, R"({"maxUnavailable":1})");
    for (const auto& [name, count] : pods) {
      items += "," + item("resource.k8s.io/v1", "ResourceClaimTemplate", name, R"({"spec":{}})");
      items +=
          "," + item("apps/v1", "Deployment", name,
                     fmt::format(R"({{"replicas":{},"selector":{{"matchLabels":{{"{}":"{}"}}}}}})",
                                 count, kServiceLabel, service));
    }
  }
  const auto list = parse_objects("plan", R"({"items":[)" + items + "]}");
  EXPECT_TRUE(list) << to_string(list.error());
  return list->objects;
}

int total(const Pods& pods) {
  int all = 0;
  for (const auto& [name, count] : pods) all += count;
  return all;
}

Plan random_plan(Rng& rng) {
  Plan plan;
  for (const char* service : {"chat", "embed", "rank"})
    for (int units = 1; units <= 4; units *= 2)
      if (rng.below(5) < 2)
        plan[service][fmt::format("{}-u{}", service, units)] = 1 + static_cast<int>(rng.below(5));
  if (plan.empty()) plan["chat"]["chat-u1"] = 2;
  return plan;
}

// A keeper at a server, one round after another; of each service as many pods are ready as were
// when the plan came, or as the plan wants.
class Kept {
 public:
  Kept(std::uint64_t seed, double trouble, int room) : server(seed, trouble, room) {}

  void plan(const Plan& next) {
    for (auto& [service, floor] : floors_) floor = 0;
    for (const auto& [service, pods] : next)
      floors_[service] = std::min(server.ready(service), total(pods));
    kept_.wanted = objects_of(next);
  }
  Result<KeptRound> round() {
    return keep_round(kept_, [this](auto method, auto& path, auto& body, auto type) {
      auto answer = server.ask(method, path, body, type);
      check();
      return answer;
    });
  }
  // Whether it comes to an end in so many rounds.
  bool settles(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const auto done = round();
      if (done && done->settled) return true;
      server.tick();
      check();
    }
    return false;
  }

  FakeKubeApi server;

 private:
  void check() {
    for (const auto& [service, floor] : floors_) EXPECT_GE(server.ready(service), floor) << service;
  }
  KeptPlan kept_{"p", "ml", {}};
  Pods floors_;
};

void expect_objects(const FakeKubeApi& server, const Plan& plan) {
  int kinds = 0;
  for (const auto& [service, pods] : plan) {
    kinds += static_cast<int>(pods.size());
    EXPECT_EQ(server.ready(service), total(pods)) << service;
  }
  const int services = static_cast<int>(plan.size());
  EXPECT_EQ(server.count(KubeKind::deployment, "ml"), kinds);
  EXPECT_EQ(server.count(KubeKind::claim_template, "ml"), kinds);
  EXPECT_EQ(server.count(KubeKind::service, "ml"), services);
  EXPECT_EQ(server.count(KubeKind::budget, "ml"), services);
  EXPECT_EQ(server.count(KubeKind::device_class, "ml"), 1);
}

TEST(KeptPlan, ConvergesThroughTroubleAndNeverBreaksBeforeItMakes) {
  for (int seed = 1; seed <= test_rounds(kSeeds); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<std::uint64_t>(seed));
    Kept kept(rng.next(), 0.3 * rng.uniform(), 1000);
    kept.server.put_foreign(KubeKind::deployment, "others-u1", "ml");
    kept.server.put_foreign(KubeKind::service, "others", "ml");
    Plan plan;
    for (int i = 0; i < kPlans; ++i) {
      plan = random_plan(rng);
      kept.plan(plan);
      kept.settles(static_cast<int>(rng.below(30)));  // the next one may come before the end
    }
    ASSERT_TRUE(kept.settles(kRounds));
    expect_objects(kept.server, plan);
    EXPECT_EQ(kept.server.touched_foreign(), 0);
    kept.server.heal();
    const int writes = kept.server.writes();
    EXPECT_TRUE(kept.settles(3));
    EXPECT_EQ(kept.server.writes(), writes);  // it does not flap
    if (HasFailure()) return;
  }
}

TEST(KeptPlan, MakesRoomWhereFewerPodsAreWanted) {
  Kept kept(7, 0, 8);
  kept.plan({{"chat", {{"chat-u1", 8}}}});
  ASSERT_TRUE(kept.settles(100));
  const Plan next = {{"chat", {{"chat-u2", 3}}}};
  kept.plan(next);
  ASSERT_TRUE(kept.settles(200));
  expect_objects(kept.server, next);
}

TEST(KeptPlan, WaitsAndSaysSoWhereNothingCanGoFirst) {
  Kept kept(7, 0, 4);
  kept.plan({{"chat", {{"chat-u2", 2}}}});
  ASSERT_TRUE(kept.settles(100));
  kept.plan({{"chat", {{"chat-u4", 1}, {"chat-u1", 1}}}});
  EXPECT_FALSE(kept.settles(200));
  const auto round = kept.round();
  ASSERT_TRUE(round);
  EXPECT_EQ(round->waiting, "chat-u1: 0 of 1 pods are ready");
}

TEST(KeptPlan, LeavesWhatHasItsNameAndIsNotItsOwn) {
  Kept kept(7, 0, 100);
  kept.plan({{"chat", {{"chat-u2", 2}}}});
  ASSERT_TRUE(kept.settles(100));
  kept.server.put_foreign(KubeKind::deployment, "chat-u1", "ml");
  kept.plan({{"chat", {{"chat-u1", 1}}}});
  EXPECT_FALSE(kept.settles(100));
  const auto round = kept.round();
  ASSERT_TRUE(round);
  EXPECT_EQ(round->faults, std::vector<std::string>{"Deployment chat-u1 is there and not of this "
                                                    "plan: it is left as it is"});
  EXPECT_EQ(kept.server.ready("chat"), 2);
  EXPECT_EQ(kept.server.touched_foreign(), 0);
}

TEST(KeptPlan, ChangesNothingWhereNotEverythingIsSeen) {
  KeptPlan plan{"p", "ml", objects_of({{"chat", {{"chat-u2", 2}}}})};
  int writes = 0;
  for (int blind = 0; blind < kKubeKinds; ++blind) {
    int asked = 0;
    const auto round = keep_round(plan, [&](auto method, auto&, auto&, auto) -> Result<KubeReply> {
      writes += method != "GET";
      if (asked++ == blind) return KubeReply{200, R"({"items":"none"})"};
      return KubeReply{200, R"({"metadata":{},"items":[]})"};
    });
    EXPECT_FALSE(round);
  }
  EXPECT_EQ(writes, 0);
}

TEST(KeptPlan, PausesAreBounded) {
  EXPECT_EQ(pause_ns(1, 0), 50'000'000);
  EXPECT_LT(pause_ns(1, 0.999), 100'000'000);
  for (int failures = 1; failures < 100; ++failures) {
    EXPECT_GE(pause_ns(failures + 1, 0), pause_ns(failures, 0));
    EXPECT_LE(pause_ns(failures, 0.999), 30'000'000'000);
  }
}

TEST(KubeObjects, OfAListAreReadOrRefused) {
  const auto list = parse_objects("list", R"({"metadata":{"resourceVersion":"7"},"items":[
    {"metadata":{"name":"a","generation":2},"spec":{"replicas":3},
     "status":{"observedGeneration":1,"readyReplicas":2}}]})",
                                  KubeKind::deployment);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->version, "7");
  EXPECT_EQ(list->objects[0].replicas, 3);
  EXPECT_FALSE(list->objects[0].observed);
  for (const char* bad : {"{}", R"({"items":[{}]})", R"({"items":[{"metadata":{"name":"a"},
       "spec":{"replicas":-1}}]})",
                          R"({"items":[{"metadata":{"name":"a"},
       "spec":{"replicas":"3"}}]})",
                          "no", ""})
    EXPECT_FALSE(parse_objects("list", bad, KubeKind::deployment)) << bad;
  EXPECT_FALSE(parse_objects("list", R"({"items":[{"kind":"Pod","metadata":{"name":"a"}}]})"));
}

TEST(KubeObjects, OfAWatchSayWhetherToListAgain) {
  EXPECT_TRUE(says_change(R"({"type":"ADDED","object":{}})"));
  EXPECT_TRUE(says_change(R"({"type":"ERROR","object":{"code":410}})"));
  EXPECT_FALSE(says_change(R"({"type":"BOOKMARK","object":{}})"));
  EXPECT_FALSE(says_change("nonsense {"));
}

}  // namespace
}  // namespace partita::dra
