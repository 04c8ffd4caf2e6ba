#include "act/gateway_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::actuate {
namespace {

GatewayChoices some_choices() {
  return {{{.service = "mlp",
            .canary = CanaryChoice{.version = "2",
                                   .share = 0.05,
                                   .by_flag = true,
                                   .state = TrialState::promoted,
                                   .why = "120 answers, 0 of them failed or late"}},
           {.service = "ocr", .unloaded = true},
           {.service = "vad", .canary = CanaryChoice{"3", 1, true}}}};
}

TEST(GatewayChoices, AreReadBack) {
  const auto read = parse_choices("choices.json", choices_json(some_choices()));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, some_choices());
  EXPECT_EQ(parse_choices("c", choices_json({})).value(), GatewayChoices());
}

TEST(GatewayChoices, RefuseWhatCannotBe) {
  const auto fault = [](const std::string& from, const std::string& to) {
    std::string text = choices_json(some_choices());
    const auto at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    const auto read = parse_choices("choices.json", text.replace(at, from.size(), to));
    return read ? std::string() : to_string(read.error());
  };
  EXPECT_THAT(fault("\"ocr\"", "\"mlp\""), testing::HasSubstr("service 'mlp' is listed twice"));
  EXPECT_THAT(fault("0.05", "0"), testing::HasSubstr("choices.json:5: 'share'"));
  EXPECT_THAT(fault("promoted", "demoted"), testing::HasSubstr("'state'"));
}

}  // namespace
}  // namespace partita::actuate
