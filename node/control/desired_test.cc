#include "control/desired.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

struct DesiredTest : testing::Test {
  World world = small_world();
  DesiredKept kept;
  Report report;
};

TEST_F(DesiredTest, TakesAFileThatIsFineOnceAndKeepsItsWordOtherwise) {
  Desired desired(world, kept, report);
  EXPECT_FALSE(desired.hear_file({}));
  EXPECT_FALSE(desired.hear_file("services: 7\n"));
  EXPECT_EQ(report.take_news().size(), 1u);
  const std::string text = services_text({{"b", 20}, {"a", 10}});
  EXPECT_TRUE(desired.hear_file(text));
  EXPECT_FALSE(desired.hear_file(text));
  ASSERT_EQ(desired.now().services.size(), 2u);
  EXPECT_EQ(desired.now().services[0].name, "a");
  EXPECT_EQ(desired.now().who, "their file");
  EXPECT_EQ(report.take_events().size(), 1u);
  // Another agent goes on with what was kept.
  const Desired next(world, kept, report);
  EXPECT_EQ(next.now().key, desired.now().key);
  EXPECT_EQ(next.now().services.size(), 2u);
}

TEST_F(DesiredTest, ANoticeOfItsFileGoesWithWhatWasTheMatterAndTheNextIsNews) {
  world.services_file = "/etc/services.yaml";
  Desired desired(world, kept, report);
  const std::string text = services_text({{"a", 10}});
  const auto news_of = [&](const std::optional<std::string>& file, const char* fault = "") {
    desired.hear_file(file, fault);
    std::vector<std::string> news;
    for (const LoopNotice& one : report.take_news()) news.push_back(one.sentence);
    return news;
  };
  EXPECT_TRUE(news_of(text).empty());
  const auto broken = news_of("services: 7\n");
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_NE(broken[0].find("/etc/services.yaml:1: "), std::string::npos) << broken[0];
  EXPECT_TRUE(news_of("services: 7\n").empty());
  EXPECT_TRUE(desired.refused_file());
  EXPECT_TRUE(news_of(text).empty());  // as it was
  EXPECT_TRUE(report.notices().empty());
  EXPECT_FALSE(desired.refused_file());
  EXPECT_EQ(news_of("services: 8, 9\n").size(), 1u);
  const auto gone = news_of({}, "there is no such file");
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_NE(gone[0].find("/etc/services.yaml: there is no such file"), std::string::npos);
  EXPECT_EQ(report.notices(), gone);
  EXPECT_EQ(desired.now().services.size(), 1u);
  // What nobody could plan for is refused as a request for it would be.
  const char* const unknown = "services:\n  - {name: a, model: other, rate_rps: 1, slo_ms: 9}\n";
  EXPECT_EQ(news_of(unknown).size(), 1u);
  EXPECT_EQ(desired.now().services.at(0).model, "m");
}

TEST_F(DesiredTest, RefusesWhatNoProfileIsOf) {
  Desired desired(world, kept, report);
  const Reply reply =
      desired.set({"services:\n  - {name: a, model: other, rate_rps: 1, slo_ms: 9}\n"}, "ops");
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, ErrorCode::bad_input);
  EXPECT_TRUE(desired.now().services.empty());
  EXPECT_TRUE(desired.set({services_text({{"a", 10}})}, "ops").has_value());
  EXPECT_EQ(desired.now().who, "ops");
}

TEST_F(DesiredTest, AModeThatWasSetOutlivesTheSettings) {
  world.settings.mode = Mode::observe;
  Desired first(world, kept, report);
  EXPECT_EQ(first.mode(), Mode::observe);
  first.set_mode(Mode::automatic, "ops");
  EXPECT_EQ(Desired(world, kept, report).mode(), Mode::automatic);
}

}  // namespace
}  // namespace partita::control
