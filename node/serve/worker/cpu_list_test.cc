// CPU lists as people and plans spell them.
#include "serve/worker/cpu_list.h"

#include <gtest/gtest.h>

namespace partita::serve {
namespace {

TEST(CpuList, IsReadAsTasksetDoes) {
  EXPECT_EQ(*parse_cpus("f", "0,2-3,2"), (std::vector{0, 2, 3}));
  EXPECT_EQ(cpus_text({0, 2, 3}), "0,2,3");
  for (const char* text : {"", "a", "3-1", "1-2-3", "-1", "1,", "99999"}) {
    EXPECT_FALSE(parse_cpus("f", text)) << text;
  }
}

TEST(CpuList, UnitsAreCoresFromTheirStart) {
  const std::vector<int> usable = {0, 1, 4, 5};  // what a container was given
  EXPECT_EQ(*cpus_of_units("f", "2u@1", usable), (std::vector{1, 4}));
  EXPECT_EQ(*cpus_of_units("f", "4u@0", usable), usable);
  for (const char* text : {"", "2", "2u", "2u@", "2u@3", "5u@0", "0u@0", "1u@-1", "2g@0"}) {
    EXPECT_FALSE(cpus_of_units("f", text, usable)) << text;
  }
}

TEST(CpuList, PinsThisThread) {
  const std::vector<int> before = usable_cpus();
  ASSERT_FALSE(before.empty());
  ASSERT_TRUE(pin_to({before.back()}));
  EXPECT_EQ(usable_cpus(), std::vector{before.back()});
  EXPECT_TRUE(pin_to(before));
  EXPECT_FALSE(pin_to({kMaxCpu}));
}

}  // namespace
}  // namespace partita::serve
