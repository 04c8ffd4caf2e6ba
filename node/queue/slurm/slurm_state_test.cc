#include "queue/slurm/slurm_state.h"

#include <gtest/gtest.h>

namespace partita::slurm {
namespace {

TEST(ParseEnded, RunsThatEndedByThemselvesOrWereCancelled) {
  const std::vector<EndedRun> wanted = {{"12", 100, 0, false, 0}, {"13_4", 101, 2, true, 15}};
  EXPECT_EQ(parse_ended("12 100 0 3 0 160\n"
                        "13_4 101 2 4 15 161\n"
                        "14 102 0 7 0 162\n"  // its node failed: it runs again
                        "15 103 0 0 0 163\n"  // somebody put it back
                        "torn 1\n"),
            wanted);
  EXPECT_EQ(parse_ended("12 100 0 3 0\n13_4 101 2 4 15\n"), wanted);  // before times were written
}

// A run ends once: whose node fails after its end is one whose end slurmctld had forgotten.
TEST(ParseEnded, ARunThatIsEndedAgainHasNoNext) {
  const auto runs = parse_ended("84 100 0 3 256 160\n84 100 0 7 0 180\n");
  const std::vector<EndedRun> wanted = {
      {"84", 100, 0, false, 256}, {"84", 179, 1, false, 256}, {"84", 180, 1, false, 256}};
  EXPECT_EQ(runs, wanted);
  // Put back by somebody, or its node failed first: it is to run.
  EXPECT_EQ(parse_ended("84 100 0 3 256 160\n84 100 0 0 0 180\n").size(), 1u);
  EXPECT_EQ(parse_ended("84 100 0 7 0 150\n84 150 1 3 0 160\n").size(), 1u);
}

}  // namespace
}  // namespace partita::slurm
