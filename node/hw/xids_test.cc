#include "hw/xids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::hw {
namespace {

using testing::Contains;
using testing::Not;

// What the maker's page says of numbers that everybody meets; the table is data, so the oracle is a
// second reading of the page.
TEST(Xids, SayWhoseFaultItIs) {
  for (const int code : {13, 31, 32, 68, 69, 94}) {
    ASSERT_NE(find_xid(code), nullptr) << code;
    EXPECT_EQ(find_xid(code)->action, XidAction::restart_app) << code;
  }
  for (const int code : {43, 63, 92, 137}) {
    ASSERT_NE(find_xid(code), nullptr) << code;
    EXPECT_EQ(find_xid(code)->action, XidAction::ignore) << code;
  }
  EXPECT_EQ(find_xid(79)->action, XidAction::restart_node);
  const std::vector<int> out = xids_that_take_out();
  EXPECT_THAT(out, testing::ElementsAre(46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140,
                                        143, 155, 156, 158));
}

TEST(Xids, OfUnusedNumbersNothingIsSaid) {
  for (const int code : {0, -1, 1, 12, 65, 111, 1000}) EXPECT_EQ(find_xid(code), nullptr) << code;
  for (const Xid& one : xid_catalogue()) {
    EXPECT_EQ(find_xid(one.code), &one);
    EXPECT_FALSE(one.what.empty());
  }
}

}  // namespace
}  // namespace partita::hw
