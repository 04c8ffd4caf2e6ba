#include "queue/slurm/host_list.h"

#include <gtest/gtest.h>

namespace partita::slurm {
namespace {

using Names = std::vector<std::string>;

TEST(HostList, names_and_ranges) {
  EXPECT_EQ(*host_names(""), Names{});
  EXPECT_EQ(*host_names("(null)"), Names{});
  EXPECT_EQ(*host_names("g1"), Names{"g1"});
  EXPECT_EQ(*host_names("g[0-2,7],h1"), (Names{"g0", "g1", "g2", "g7", "h1"}));
  EXPECT_EQ(*host_names("n[08-11]-ib"), (Names{"n08-ib", "n09-ib", "n10-ib", "n11-ib"}));
}

TEST(HostList, what_is_none_is_refused) {
  for (const char* text : {"g[0-", "g]0[", "g[a]", "g[3-1]", "g[1-2][3-4]", "a,,b", "g[0-99999999]",
                           "g[-1]", "g[]"})
    EXPECT_FALSE(host_names(text)) << text;
}

TEST(HostList, tasks_of_an_array) {
  EXPECT_EQ(*array_tasks("0-3,7%2"), (ArrayTasks{{0, 1, 2, 3, 7}, 2}));
  EXPECT_EQ(*array_tasks("1-7:3"), (ArrayTasks{{1, 4, 7}, 0}));
  for (const char* text : {"", "x", "0-3%", "0-3%x", "0-9:0", "0-99999999"})
    EXPECT_FALSE(array_tasks(text)) << text;
}

}  // namespace
}  // namespace partita::slurm
