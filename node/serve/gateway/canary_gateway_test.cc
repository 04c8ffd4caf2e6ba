// Canaries through the core: a share of the requests, copies, and what becomes of them.
#include <gtest/gtest.h>

#include "serve/gateway/testing/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using test::kMs;
using test::TestWorker;

class CanaryCore : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    fresh_.name = "s@2";
    fresh_.segments = {{"f", 4, 1}};
    core_->serve({service_, fresh_});
  }
  std::unique_ptr<TestWorker> fresh_worker() {
    return std::make_unique<TestWorker>(*loop_, link_path(directory_), "/state/workers.json:f:0",
                                        kMs, std::optional<std::vector<CurvePoint>>(), false,
                                        "s@2");
  }
  bool both_ready() {
    return until([&] { return core_->ready("s") && core_->ready("s@2"); });
  }
  // Of one client, one after the other; how many failed.
  int ask_many(int requests, std::string_view client = {}) {
    int failed = 0;
    for (int i = 0; i < requests; ++i) {
      RequestHead head;
      head.client = client;
      head.trusted = false;
      const auto asked = ask(static_cast<float>(i), 1, head);
      EXPECT_TRUE(until([&] { return asked->ended; }));
      failed += asked->denial ? 1 : 0;
      if (!asked->denial) expect_twice(*asked, static_cast<float>(i));
    }
    return failed;
  }
  std::string state() { return core_->canary("s") ? core_->canary("s")->state : "none"; }
  ServedService fresh_ = service_;
};

TEST_F(CanaryCore, GetsItsShareAndIsPromotedToAll) {
  open({.link_path = "", .canaries = {{"s", {.version = "2", .share = 0.25}}}, .canary_watch = 1});
  core_->serve({service_, fresh_});
  const auto old = worker(kMs);
  const auto fresh = fresh_worker();
  ASSERT_TRUE(both_ready());
  EXPECT_EQ(ask_many(4 * kFewestAnswers - 4), 0);
  EXPECT_EQ(fresh->items, kFewestAnswers - 1);
  EXPECT_EQ(old->items, 3 * (kFewestAnswers - 1));
  EXPECT_EQ(state(), "on trial");
  EXPECT_EQ(ask_many(4), 0);
  ASSERT_TRUE(until([&] { return state() == "promoted"; }));
  EXPECT_NE(said_.find("the canary 's@2' of 's' is promoted"), std::string::npos) << said_;
  const int before = old->items;
  EXPECT_EQ(ask_many(20), 0);
  EXPECT_EQ(old->items, before);
  fresh->vanish();
  ASSERT_TRUE(until([&] { return !core_->ready("s@2"); }));
  EXPECT_EQ(ask_many(5), 0) << "where it cannot, the old one does";
  EXPECT_EQ(old->items, before + 5);
}

// A plan may promise something else while a trial runs: late is what the service says now.
TEST_F(CanaryCore, IsJudgedByThePromiseInForce) {
  const auto old = worker(kMs);
  const auto fresh = fresh_worker();
  ASSERT_TRUE(both_ready());
  EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 1}), "");
  EXPECT_EQ(ask_many(5), 0);
  EXPECT_EQ(state(), "on trial");
  ServedService stricter = service_;
  stricter.slo = Millis{1e-3};
  core_->serve({stricter, fresh_});
  EXPECT_EQ(ask_many(3), 0);
  EXPECT_EQ(state(), "taken back");
}

// Its failures hurt its share, and count against nobody who asked.
TEST_F(CanaryCore, ABrokenOneIsTakenBackAtItsThirdAnswer) {
  const auto old = worker(kMs);
  const auto fresh = fresh_worker();
  ASSERT_TRUE(both_ready());
  EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 0.2}), "");
  ask_many(5, "10.0.0.1");
  EXPECT_EQ(core_->canary("s")->answers, 1);
  for (float value = 0; value < 40; ++value) {
    fresh->fails_of = value;
    RequestHead head;
    head.client = "10.0.0.1";
    head.trusted = false;
    const auto asked = ask(value, 1, head);
    ASSERT_TRUE(until([&] { return asked->ended; }));
    EXPECT_TRUE(!asked->denial || asked->denial->kind == Denial::Kind::failed);
  }
  EXPECT_EQ(state(), "taken back");
  EXPECT_EQ(core_->canary("s")->bad, 3);
  EXPECT_EQ(fresh->items, 4);
  EXPECT_EQ(ask_many(20, "10.0.0.1"), 0);
  EXPECT_EQ(fresh->items, 4);
  // What asks for the version gets it; a canary is begun anew by who wants it.
  EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 1}), "");
  EXPECT_EQ(state(), "on trial");
  EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 0}), "");
  EXPECT_EQ(state(), "none");
  EXPECT_NE(core_->set_canary("s", {.version = "3", .share = 0.1}), "");
  EXPECT_NE(core_->set_canary("t", {.version = "2", .share = 0.1}), "");
}

// What was decided outlives the gateway: whether a version was promoted or taken back, and what
// takes nothing.
TEST_F(CanaryCore, AnotherGatewayGoesByWhatWasDecided) {
  actuate::GatewayChoices kept;
  CoreOptions options{
      .link_path = "", .canary_watch = 1, .chosen = [&](const auto& told) { kept = told; }};
  open(options);
  core_->serve({service_, fresh_});
  {
    const auto old = worker(kMs);
    const auto fresh = fresh_worker();
    ASSERT_TRUE(both_ready());
    EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 1}), "");
    EXPECT_EQ(kept.services.size(), 1U) << "at once";
    ask_many(static_cast<int>(kFewestAnswers));
    ASSERT_TRUE(until([&] { return state() == "promoted"; }));
    const auto told = [&] {
      return kept.services[0].canary->state == actuate::TrialState::promoted;
    };
    ASSERT_TRUE(until(told));
    EXPECT_TRUE(core_->set_loaded("s@2", false));
  }
  ASSERT_EQ(kept.services.size(), 2U);
  options.choices = kept;
  open(options);
  core_->serve({service_, fresh_});
  EXPECT_EQ(state(), "promoted");
  EXPECT_FALSE(core_->loaded("s@2"));
  EXPECT_TRUE(core_->loaded("s"));
  // Its evidence is gone with the gateway, so a trial that was under way begins anew.
  options.choices.services[0].canary->state = actuate::TrialState::on_trial;
  open(options);
  core_->serve({service_, fresh_});
  EXPECT_EQ(state(), "on trial");
  EXPECT_TRUE(core_->set_loaded("s@2", true));
  EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 0}), "");
  EXPECT_EQ(kept, actuate::GatewayChoices());
}

// A flag that is said again finds its version as it was; another flag, or none, is what holds now.
TEST_F(CanaryCore, FlagsHoldForTheGatewayThatHasThem) {
  CoreOptions options{.link_path = "", .canaries = {{"s", {.version = "2", .share = 0.5}}}};
  actuate::CanaryChoice& was =
      options.choices.services.emplace_back(actuate::ServiceChoice{.service = "s"})
          .canary.emplace();
  was = {.version = "2",
         .share = 0.5,
         .by_flag = true,
         .state = actuate::TrialState::taken_back,
         .why = "3 of its 3 answers failed"};
  const auto begun = [&] {
    open(options);
    core_->serve({service_, fresh_});
    return state();
  };
  EXPECT_EQ(begun(), "taken back");
  EXPECT_EQ(core_->canary("s")->why, "3 of its 3 answers failed");
  options.canaries["s"].share = 0.25;
  EXPECT_EQ(begun(), "on trial");
  options.canaries.clear();
  EXPECT_EQ(begun(), "none");
}

TEST_F(CanaryCore, AShadowsAnswersAreThrownAway) {
  const auto old = worker(kMs);
  const auto fresh = fresh_worker();
  ASSERT_TRUE(both_ready());
  EXPECT_EQ(core_->set_canary("s", {.version = "2", .share = 0.5, .shadow = true}), "");
  EXPECT_EQ(ask_many(10), 0);
  ASSERT_TRUE(until([&] { return core_->idle() && core_->canary("s")->answers == 5; }));
  EXPECT_EQ(old->items, 10);
  EXPECT_EQ(fresh->items, 5);
  fresh->fails_of = 7;
  for (int i = 0; i < 6; ++i) {
    const auto asked = ask(7);
    ASSERT_TRUE(until([&] { return asked->ended; }));
    expect_twice(*asked, 7);
  }
  ASSERT_TRUE(until([&] { return state() == "taken back"; })) << "and nobody was hurt";
  EXPECT_EQ(fresh->items, 8);
  EXPECT_EQ(free_slots(), slots());
  EXPECT_EQ(metric("partita_slots_free{service=\"s@2\"}"),
            metric("partita_slots{service=\"s@2\"}"));
}

}  // namespace
}  // namespace partita::serve
