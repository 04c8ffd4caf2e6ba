// What a leader does with what it cannot plan: services without room, terms that no GPU keeps, GPUs
// that it knows nothing of, places that nodes do not name.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "fleet/brain/counting.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/status.h"
#include "fleet/brain/testing/fleet_fixture.h"
#include "forms/serving_forms.h"

namespace partita::fleet {
namespace {

constexpr double kPrecise = 0.01;  // of a rate: plans are not found for all that would fit

// A fleet with nothing on it, and two small services that come first.
struct EmptyFleet {
  TestFleet fleet{0};
  std::string small;
  double slo_ms = 0;

  explicit EmptyFleet(Rng& rng) {
    const int nodes = 1 + static_cast<int>(rng.below(3));
    for (int n = 0; n < nodes; ++n) {
      const NodeRecord node =
          node_of_tests(fmt::format("n{}", n), 1 + static_cast<int>(rng.below(2)));
      fleet.view.nodes[node.node] = node;
    }
    for (const char* name : {"s", "t"})
      if (rng.below(2) == 0)
        small += fmt::format("  - {{name: {}, model: n, rate_rps: {}, slo_ms: 100, priority: 1}}\n",
                             name, 20 + 200 * rng.uniform());
    slo_ms = std::exp(std::log(12) + rng.uniform() * std::log(20));
  }
  // Of the service when so much of it is asked for.
  double planned(double rate) {
    fleet.view.wanted->services = fmt::format(
        "services:\n  - {{name: a, model: m, rate_rps: {}, slo_ms: {}}}\n{}", rate, slo_ms, small);
    const auto decision = fleet.leader.decide(fleet.view, "n0");
    CHECK(decision.has_value());
    for (const ServiceOutlook& one : decision->services)
      if (one.name == "a") return one.planned_rps;
    return 0;
  }
};

TEST(Room, WhoAsksForMoreGetsNoLess) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(20)); ++seed) {
    Rng rng(seed);
    EmptyFleet empty(rng);
    double fits = 1, too_much = 1e5;
    while (too_much > fits * 1.03) {
      const double rate = std::sqrt(fits * too_much);
      (empty.planned(rate) >= rate * (1 - 1e-6) ? fits : too_much) = rate;
    }
    double before = fits;
    for (const double times : {1.0, 1.5, 2.0, 4.0, 8.0, 100.0}) {
      const double now = empty.planned(fits * times);
      EXPECT_GE(now, before * (1 - kPrecise)) << "seed " << seed << ": " << times << " of " << fits;
      before = std::max(now, before);
    }
  }
}

// A GPU of the node is gone, and with it what its instances carried.
void lose_gpu(NodeRecord& node, const Part& part, int index) {
  for (NodeGpu& gpu : node.gpus)
    if (gpu.index == index) gpu.unusable = "it is lost";
  for (Carried& one : node.carries) {
    double all = 0, left = 0;
    for (const plan::PlannedGpu& gpu : part.plan.gpus)
      for (const plan::PlannedInstance& instance : gpu.instances)
        if (instance.service == one.service) {
          all += instance.throughput.value;
          left += gpu.index == index ? 0 : instance.throughput.value;
        }
    one.rate_rps *= all > 0 ? left / all : 0;
  }
  std::erase_if(node.carries, [](const Carried& one) { return one.rate_rps <= 0; });
  std::erase_if(node.runs, [&](const plan::PlannedGpu& gpu) { return gpu.index == index; });
}

// Nodes of two and of four GPUs, on which services of one GPU leave a model of four little room. A
// node is lost, and a GPU of another: whoever has what it needs at the end had at all times what it
// had after that, in whatever order parts are carried out.
TEST(Room, IsMadeOutOfWhatOthersCarryByThen) {
  int made = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(60)); ++seed) {
    Rng rng(seed);
    TestFleet fleet(0, 0, language_ground_of_tests());
    for (int n = 0; n < 7; ++n) {
      const NodeRecord node = node_of_tests(fmt::format("n{}", n), n < 3 ? 4 : 2);
      fleet.view.nodes[node.node] = node;
    }
    fleet.view.wanted->survive = Survive::node;
    Rates rates{{"quad", 2 + 10 * rng.uniform()}};
    for (const char* service : {"a", "b", "lm0", "lm1"})
      rates[service] = service[0] == 'l' ? 3 + 20 * rng.uniform() : 500 + 2000 * rng.uniform();
    fleet.want(rates);
    fleet.settle();
    fleet.view.nodes.erase(fmt::format("n{}", rng.below(3)));
    auto node = fleet.view.nodes.begin();
    std::advance(node, rng.below(6));
    if (!fleet.view.parts.contains(node->first)) continue;
    const Part loser = fleet.view.parts.at(node->first);
    lose_gpu(node->second, loser, static_cast<int>(rng.below(2)));
    Rates had;  // of those that this node does not plan anew
    for (const auto& [service, rate] : rates)
      if (!rates_of(loser).contains(service)) had[service] = std::min(rate, fleet.carried(service));
    for (int step = 0; step < 12; ++step) {
      const Decision decision = fleet.decide();
      for (const Part& part : decision.parts) made += part.cause.starts_with("room for ") ? 1 : 0;
      for (const ServiceOutlook& one : decision.services)
        if (one.planned_rps < rates.at(one.name) * (1 - 1e-6)) had.erase(one.name);
      fleet.carry_out_random(rng);
      for (const auto& [service, rate] : had)
        EXPECT_GE(fleet.carried(service), rate * (1 - 1e-6)) << "seed " << seed << " " << service;
    }
    fleet.settle();
  }
  EXPECT_GT(made, 0);
}

// ---- terms that no node could carry

using Instances = std::map<std::string, std::vector<plan::PlannedGpu>>;
Instances instances(const TestFleet& fleet) {
  Instances all;
  for (const auto& [name, node] : fleet.view.nodes) all[name] = node.runs;
  return all;
}

const ServiceOutlook& of(const Decision& decision, const std::string& service) {
  return *std::ranges::find(decision.services, service, &ServiceOutlook::name);
}

// A model of four GPUs comes first, and no node has so many: few plans are made to find that out,
// and another service gets what it gets without it.
TEST(Room, WhoHasNoneAnywhereTakesNoPlansFromOthers) {
  for (const double rate : {5e3, 8e3, 1e5}) {
    double planned[2] = {};
    for (const bool beside : {false, true}) {
      TestFleet fleet(3, 2, language_ground_of_tests());
      fleet.want(beside ? Rates{{"a", rate}, {"quad", 50}} : Rates{{"a", rate}});
      fleet.view.wanted->priorities["quad"] = 1;
      const Decision decision = fleet.decide();
      planned[beside ? 1 : 0] = of(decision, "a").planned_rps;
      EXPECT_LT(fleet.leader.plans_made(), 400) << rate;
      if (beside) {
        EXPECT_FALSE(of(decision, "quad").why.empty());
      }
    }
    EXPECT_GT(planned[0], 0);
    EXPECT_GE(planned[1], planned[0] * (1 - kPrecise)) << rate;
  }
}

struct Wrong {
  const char *right, *wrong, *why;
};
constexpr Wrong kWrong[] = {
    {"name: a, model: m", "name: a, model: nn", "there is no profile of model 'nn'; did you mean"},
    {"slo_ms: 150", "slo_ms: 5",
     "its SLO of 5 ms is below the fastest batch of model 'm': 5.714 ms on A100-80GB"},
};

// Wrong terms of one service: it goes on as it is, wherever it goes, and others follow their own.
TEST(Terms, ThatNoGpuKeepsChangeNothing) {
  for (const Wrong& one : kWrong) {
    TestFleet fleet(3, 1);
    fleet.want({{"a", 900}});
    fleet.settle();
    const Instances before = instances(fleet);
    const std::string right = fleet.view.wanted->services;
    std::string& text = fleet.view.wanted->services;
    text.replace(text.find(one.right), std::string(one.right).size(), one.wrong);
    const std::string wrong = text;
    const Decision decision = fleet.decide();
    EXPECT_TRUE(decision.parts.empty()) << one.wrong << decision_text(decision);
    EXPECT_TRUE(of(decision, "a").unmet);
    EXPECT_NE(of(decision, "a").why.find(one.why), std::string::npos) << of(decision, "a").why;
    EXPECT_EQ(instances(fleet), before);
    // Another service comes, and a node goes: it moves by the terms that it has.
    text += "  - {name: b, model: n, rate_rps: 300, slo_ms: 150}\n";
    fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 899.9); });
    EXPECT_GE(fleet.carried("b"), 299.9);
    const std::string gone = fleet.nodes_of("a").at(0);
    fleet.view.nodes.erase(gone);
    fleet.settle();
    EXPECT_GE(fleet.carried("a"), 899.9) << one.wrong;
    for (const auto& [name, part] : fleet.view.parts) {
      if (!fleet.view.nodes.contains(name) || part.services.empty()) continue;
      const auto read = forms::parse_services(name, part.services);
      ASSERT_TRUE(read) << to_string(read.error());
      for (const plan::Service& its : *read)  // as its plan says
        for (const plan::PlannedService& row : part.plan.services)
          if (row.name == its.name) {
            EXPECT_EQ(std::pair(row.model, row.slo.value), std::pair(its.model, its.slo.value));
          }
    }
    // Nobody has it: there is nothing to go on with.
    TestFleet empty(2, 1);
    empty.view.wanted->services = wrong;
    EXPECT_NE(of(empty.decide(), "a").why.find(one.why), std::string::npos);
    // The right terms are taken as ever.
    text = right;
    text.replace(text.find("slo_ms: 150"), 11, "slo_ms: 120");
    EXPECT_FALSE(fleet.decide().parts.empty());
    fleet.settle();
    EXPECT_FALSE(of(fleet.decide(), "a").unmet);
  }
}

// The guess says nothing of language models' promises; the planner does.
TEST(Terms, OfLanguageModelsThatNoGpuKeepsChangeNothing) {
  TestFleet fleet(2, 1, language_ground_of_tests());
  fleet.want({{"lm", 2}});
  fleet.settle();
  ASSERT_GE(fleet.carried("lm"), 1.99);
  const Instances before = instances(fleet);
  std::string& text = fleet.view.wanted->services;
  text.replace(text.find("tpot_ms: 60"), 11, "tpot_ms: 1");
  const Decision decision = fleet.decide();
  EXPECT_TRUE(decision.parts.empty()) << decision_text(decision);
  EXPECT_EQ(of(decision, "lm").why,
            "goes on by the terms that it has: no GPU of the fleet keeps its terms by model 'lm'");
  EXPECT_EQ(instances(fleet), before);
}

TEST(Terms, ThatNoGpuKeepsAreRefusedByFileAndLine) {
  TestFleet fleet(1);
  const auto refused = [&](const std::string& text, const FleetGround& ground) {
    const auto read = parse_fleet_services("f.yaml", text);
    CHECK(read.has_value());
    const auto done = check_carriable(ground, fleet.view, read->services, "f.yaml");
    return done ? "" : to_string(done.error());
  };
  const std::string right = services_of_tests({{"a", 300}, {"way", 900}});
  EXPECT_EQ(refused(right, ground_of_tests()), "");
  std::string step = right, name = right;
  step.replace(step.find("model_name: n"), 13, "model_name: nosuch");
  name.replace(name.find("model: m"), 8, "model: nosuch");
  EXPECT_EQ(refused(name, ground_of_tests()),
            "f.yaml:2: service 'a': there is no profile of model 'nosuch'");
  EXPECT_EQ(refused(step, ground_of_tests()),
            "f.yaml:3: service 'way': there is no profile of model 'nosuch'");
  EXPECT_EQ(refused(services_of_tests({{"tight", 1}}), ground_of_tests()),
            "f.yaml:2: service 'tight': its SLO of 1 ms is below the fastest batch of model 'm': "
            "5.714 ms on A100-80GB");
  EXPECT_EQ(refused(name, FleetGround{}), "") << "who has no profiles does not know";
  fleet.view.nodes.at("n0").gpus[1].model = "H100-80GB-SXM5";
  EXPECT_EQ(refused(name, ground_of_tests()), "") << "nor who lacks some";
}

// ---- GPUs that a leader knows nothing of

const FleetGround& two_models() {
  static const FleetGround ground = [] {
    FleetGround made = ground_of_tests();
    plan::FleetEntry other = made.profiles.front();
    other.gpu = **hw::builtin_catalogue().get("H100-80GB-SXM5");
    made.profiles.push_back(std::move(other));
    return made;
  }();
  return ground;
}

TEST(Lacks, WhoHasNoProfilesOfAGpuLeavesItsNodeAsItIs) {
  TestFleet knows(4, 1, two_models()), fleet(0);  // led by a node that was not told of H100s
  for (const char* name : {"n2", "n3"}) knows.view.nodes.at(name).gpus[0].model = "H100-80GB-SXM5";
  knows.want({{"a", 2000}, {"b", 300}});
  knows.settle();
  fleet.view = knows.view;
  const Instances before = instances(fleet);
  Rates held;
  for (const char* name : {"n2", "n3"})
    for (const auto& [service, rate] : rates_of(fleet.view.nodes.at(name).carries))
      held[service] += rate;
  ASSERT_FALSE(held.empty());
  const std::string text = fleet.view.wanted->services;
  // Whatever is wanted: what is on the H100s stays, and the others make up for what is missing.
  for (const char* slo : {"slo_ms: 100", "slo_ms: 30", "slo_ms: 150"}) {
    fleet.view.wanted->services = text;
    std::string& now = fleet.view.wanted->services;
    now.replace(now.find("slo_ms: 150"), 11, slo);
    fleet.settle();
    for (const char* name : {"n2", "n3"})
      EXPECT_EQ(instances(fleet).at(name), before.at(name)) << slo;
  }
  fleet.want({{"a", 2000}, {"b", 90000}});
  const Decision decision = fleet.decide();
  ASSERT_EQ(decision.notes.size(), 1u);
  EXPECT_EQ(decision.notes[0],
            "the leader has no profiles of H100-80GB-SXM5: nothing changes on n2, n3");
  EXPECT_NE(of(decision, "b").why.find("the leader has no profiles of H100-80GB-SXM5"),
            std::string::npos);
  // A drained one becomes empty all the same, once others have what it had.
  fleet.want({{"a", 100}});
  fleet.view.wanted->drained = {"n2", "n3"};
  fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 99.9); });
  for (const char* name : {"n2", "n3"}) EXPECT_TRUE(fleet.view.nodes.at(name).carries.empty());
}

// ---- places

TEST(Places, ThatNoNodeNamesAreSaid) {
  TestFleet fleet(3);
  fleet.want({{"a", 300}});
  const std::string said = "no node says its zone: each counts as one of its own";
  for (const Survive survive : {Survive::none, Survive::node, Survive::zone}) {
    fleet.view.wanted->survive = survive;
    const Decision decision = fleet.decide();
    const bool says = survive == Survive::zone;
    EXPECT_EQ(decision.notes, says ? std::vector{said} : std::vector<std::string>{});
    EXPECT_EQ(decision_text(decision).find(said) != std::string::npos, says);
    EXPECT_EQ(explain(fleet.view, "a").value_or("").find(said) != std::string::npos, says);
  }
  fleet.view.nodes.at("n1").zone = "z";
  EXPECT_EQ(why_own_domains(fleet.view), "");
  fleet.view.wanted->survive = Survive::rack;
  EXPECT_EQ(why_own_domains(fleet.view), "no node says its rack: each counts as one of its own");
}

// ---- what is said of it

TEST(Whys, AreInStatusAndExplained) {
  TestFleet fleet(1);
  fleet.want({{"a", 300}});
  fleet.settle();
  const Keys keys("f");
  const RateRecord said{.rates = {{"a", 300}},
                        .missing = {{"a", "goes on"}, {"b", "no profile of 'x'"}},
                        .notes = {"the leader has no profiles of X"}};
  EXPECT_EQ(*parse_rate_record("k", write(said)), said);
  fleet.view.hear(keys, keys.needs(), write(said), 9);
  const auto status = status_of(fleet.view, "f");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->services.at(0).why, "goes on");
  const auto read = parse_status("s", status_json(*status));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->services.at(0).why, "goes on");
  EXPECT_EQ(read->notes, said.notes);
  EXPECT_NE(status_text(*status).find("a: goes on\n"), std::string::npos);
  EXPECT_NE(status_text(*status).find("the leader has no profiles of X\n"), std::string::npos);
  EXPECT_NE(explain(fleet.view, "a").value_or("").find("a: goes on\n"), std::string::npos);
  EXPECT_EQ(explain(fleet.view, "b").value_or(""),
            "b: no profile of 'x'\nthe leader has no profiles of X\n");
  EXPECT_FALSE(explain(fleet.view, "c"));
  fleet.view.hear(keys, keys.needs(), {}, 10);
  EXPECT_TRUE(status_of(fleet.view, "f")->services.at(0).why.empty());
}

}  // namespace
}  // namespace partita::fleet
