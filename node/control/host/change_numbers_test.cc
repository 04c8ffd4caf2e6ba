#include "control/host/change_numbers.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "control/host/agent.h"
#include "control/memory.h"

namespace partita::control {
namespace {

TEST(ChangeNumbers, TheHighestOfTheThreeHolds) {
  MemoryFiles files;
  ASSERT_TRUE(files.make_directories("state"));
  EXPECT_EQ(last_change(files, "state", 0).value(), 0);
  EXPECT_EQ(last_change(files, "state", 7).value(), 7);
  AgentMemory memory;
  memory.changes = 9;
  ASSERT_TRUE(files.write_atomic(memory_path("state"), memory_json(memory)));
  EXPECT_EQ(last_change(files, "state", 7).value(), 9);
  ASSERT_TRUE(keep_last_change(files, "state", 12));
  ASSERT_TRUE(keep_last_change(files, "state", 11));  // never falls
  EXPECT_EQ(last_change(files, "state", 0).value(), 12);
}

TEST(ChangeNumbers, ADamagedFileIsNamedAndNothingIsGiven) {
  MemoryFiles files;
  ASSERT_TRUE(files.make_directories("state"));
  for (const std::string text :
       {"", "\n", "12", "-1\n", "12 \n", "1e3\n", "12\n13\n", "99999999999999999999\n"}) {
    ASSERT_TRUE(files.write_atomic(change_number_path("state"), text));
    EXPECT_FALSE(last_change(files, "state", 3)) << text;
    EXPECT_FALSE(keep_last_change(files, "state", 4)) << text;
    EXPECT_EQ(files.read(change_number_path("state")).value(), text);
  }
}

}  // namespace
}  // namespace partita::control
