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

// A run ends once: whose node fails after its end is one whose end slurmctld had forgotten. The
// next one is submitted when its epilog is over.
TEST(ParseEnded, ARunThatIsEndedAgainHasNoNext) {
  const auto runs = parse_ended("84 100 0 3 256 160\n84 100 0 7 0 180\n");
  const std::vector<EndedRun> wanted = {{"84", 100, 0, false, 256},
                                        {"84", 180, 1, false, 256, kForgetfulS}};
  EXPECT_EQ(runs, wanted);
  EXPECT_TRUE(runs[1].is(180, 1) && runs[1].is(195, 1));
  EXPECT_FALSE(runs[1].is(179, 1) || runs[1].is(195, 2) || runs[0].is(101, 0));
  // Nor has that one, where Slurm loses it as well.
  EXPECT_EQ(parse_ended("84 100 0 3 0 160\n84 100 0 7 0 180\n84 184 1 7 0 210\n").back(),
            (EndedRun{"84", 210, 2, false, 0, kForgetfulS}));
  // Put back by somebody, or its node failed first: it is to run.
  EXPECT_EQ(parse_ended("84 100 0 3 256 160\n84 100 0 0 0 180\n").size(), 1u);
  EXPECT_EQ(parse_ended("84 100 0 7 0 150\n84 150 1 3 0 160\n").size(), 1u);
}

// As Slurm 22.05 writes them.
TEST(ParseReservations, OfCoresOfLicencesAndOfNodes) {
  const auto all = parse_reservations(
      "ReservationName=cores StartTime=100 EndTime=200 Duration=00:30:00 Nodes=g[0-1] NodeCnt=2 "
      "CoreCnt=4 Features=(null) PartitionName=main Flags=   NodeName=g0 CoreIDs=0-1   "
      "NodeName=g1 CoreIDs=0,4-5 TRES=cpu=4 Users=root State=ACTIVE\n"
      "ReservationName=lic StartTime=100 EndTime=200 Nodes=(null) Flags=ANY_NODES TRES=(null)\n"
      "ReservationName=upkeep StartTime=300 EndTime=400 Nodes=g0 NodeCnt=1 CoreCnt=16 "
      "Flags=MAINT,OVERLAP,FLEX,SPEC_NODES TRES=cpu=16 Comment=Flags=ANY_NODES\n");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3U);
  const SlurmReservation& cores = all->at(0);
  EXPECT_EQ(cores.nodes, (std::vector<std::string>{"g0", "g1"}));
  EXPECT_EQ(cores.cores, (std::map<std::string, int>{{"g0", 2}, {"g1", 3}}));
  EXPECT_FALSE(cores.maintenance || cores.overlaps || cores.flexible || cores.any_nodes);
  EXPECT_TRUE(all->at(1).nodes.empty() && all->at(1).any_nodes);
  const SlurmReservation& upkeep = all->at(2);
  EXPECT_TRUE(upkeep.maintenance && upkeep.overlaps && upkeep.flexible && !upkeep.any_nodes);
  EXPECT_TRUE(upkeep.cores.empty());
  EXPECT_EQ(std::pair(upkeep.begin, upkeep.end), std::pair(300L, 400L));
}

}  // namespace
}  // namespace partita::slurm
