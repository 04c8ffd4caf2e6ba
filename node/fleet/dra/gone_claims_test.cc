#include "fleet/dra/gone_claims.h"

#include <gtest/gtest.h>

namespace partita::dra {
namespace {

constexpr std::int64_t kMinute = 60'000'000'000;
using Uids = std::vector<std::string>;

TEST(GoneClaims, WhatNobodyClaimsAndNobodyUsesIsGivenBack) {
  GoneClaims gone;
  const std::vector<HeldByClaim> held{{"a"}, {"b"}, {"b"}};
  gone.see(held, {}, 0);  // nothing was listed yet
  gone.see(held, {true, {"a"}}, kMinute);
  EXPECT_FALSE(gone.has("b"));  // the watch may be late
  gone.see(held, {true, {"a"}}, kMinute + kGoneAfter);
  EXPECT_TRUE(gone.has("b"));
  EXPECT_FALSE(gone.has("a"));
  EXPECT_EQ(gone.take_due(), Uids{});
  gone.see({{"a"}, {"b", true}, {"b"}}, {true, {"a"}}, 3 * kMinute);  // a process is in it
  gone.see(held, {true, {"a"}}, kMinute + kReturnedAfter);
  EXPECT_EQ(gone.take_due(), Uids{});
  gone.see(held, {true, {"a"}}, 3 * kMinute + kReturnedAfter);
  EXPECT_EQ(gone.take_due(), Uids{"b"});
  EXPECT_EQ(gone.take_due(), Uids{});  // it is tried again as late
  gone.see(held, {true, {"a"}}, 3 * kMinute + 2 * kReturnedAfter);
  EXPECT_EQ(gone.take_due(), Uids{"b"});
}

TEST(GoneClaims, WhatIsUsedWhileNobodyTellsOfClaimsIsKept) {
  GoneClaims gone;
  gone.see({{"a"}, {"b"}}, {true, {}}, 0);
  gone.see({{"a", true}, {"b"}}, {}, kReturnedAfter);  // the API server does not answer
  EXPECT_EQ(gone.take_due(), Uids{"b"});
  gone.see({{"a"}}, {}, 2 * kReturnedAfter);
  EXPECT_EQ(gone.take_due(), (Uids{"a", "b"}));
}

TEST(GoneClaims, WhoIsListedAgainIsNotGone) {
  GoneClaims gone;
  gone.see({{"a"}}, {true, {}}, 0);
  gone.see({{"a"}}, {true, {}}, kMinute);
  EXPECT_TRUE(gone.has("a"));
  gone.see({{"a"}}, {false, {}}, 2 * kMinute);
  EXPECT_TRUE(gone.has("a"));
  gone.see({{"a"}}, {true, {"a"}}, 3 * kMinute);
  EXPECT_FALSE(gone.has("a"));
  gone.see({{"a"}}, {true, {}}, 4 * kMinute);
  EXPECT_FALSE(gone.has("a"));
  gone.see({{"a"}}, {true, {}}, kReturnedAfter + kMinute);
  EXPECT_EQ(gone.take_due(), Uids{});  // four minutes, not nine
}

}  // namespace
}  // namespace partita::dra
