#include "queue/slurm/placer.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "queue/slurm/testing/test_slurm.h"

namespace partita::slurm {
namespace {

class PlacerTest : public testing::Test {
 protected:
  static std::map<std::string, SiteGpus> gpus(const TestSlurm& slurm) {
    std::map<std::string, SiteGpus> all;
    for (const auto& [name, node] : slurm.nodes)
      all[name] = {hw::builtin_catalogue().find("A100-80GB"), 1};
    return all;
  }
  Placer placer(const TestSlurm& slurm) { return {placing_, gpus(slurm), settings_}; }
  // A look of the placer's; false: it was killed.
  static bool look(Placer& placer, TestSlurm& slurm) {
    auto state = read_slurm(slurm);
    if (!state) return false;
    state->ended = parse_ended(slurm.heard);
    for (const SlurmCommand& command : placer.step(slurm.now, *state).commands)
      if (!slurm.run(command.argv)) return false;
    return true;
  }
  void until_done(TestSlurm& slurm, int ticks = 400) {
    Placer mine = placer(slurm);
    for (int i = 0; i < ticks && !slurm.all_done(); ++i) {
      ASSERT_TRUE(look(mine, slurm));
      slurm.tick(1);
    }
    ASSERT_TRUE(slurm.all_done());
    for (const auto& [number, job] : slurm.jobs)
      if (job.array_tasks.empty()) {
        EXPECT_EQ(job.runs, 1) << number;
      }
  }

  BestFitPlacing placing_;
  PlacerSettings settings_{.patience_s = 60, .stuck_s = 5, .rest_s = 10};
};

const char* const kShapes[] = {"1g.10gb", "1g.10gb", "1g.20gb",         "2g.20gb",  "3g.40gb",
                               "4g.40gb", "7g.80gb", "1g.10gb,2g.20gb", "3g.40gb*2"};

TEST_F(PlacerTest, all_run_once_without_a_refusal) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(10)); ++seed) {
    Rng rng(seed);
    TestSlurm slurm(4);
    for (int i = 0; i < 40; ++i)
      slurm.submit(kShapes[rng.below(std::size(kShapes))], static_cast<long>(1 + rng.below(20)));
    until_done(slurm);
    EXPECT_EQ(slurm.refusals, 0) << seed;
  }
}

// Killed between any two commands, again and again; nodes that come and go, strangers.
TEST_F(PlacerTest, whoever_is_killed_all_run_once) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(10)); ++seed) {
    Rng rng(seed);
    TestSlurm slurm(4);
    for (int i = 0; i < 30; ++i)
      slurm.submit(kShapes[rng.below(std::size(kShapes))], static_cast<long>(1 + rng.below(20)));
    std::optional<Placer> now;
    for (int i = 0; i < 2'000 && !slurm.all_done(); ++i) {
      if (!now) now.emplace(placer(slurm));
      slurm.commands_left = rng.below(4) == 0 ? static_cast<int>(rng.below(8)) : -1;
      if (!look(*now, slurm)) now.reset();
      slurm.commands_left = -1;
      auto node = std::next(slurm.nodes.begin(), static_cast<long>(rng.below(4)));
      if (rng.below(10) == 0) node->second.usable = !node->second.usable;
      if (rng.below(10) == 0) {
        node->second.strange.clear();
      } else if (rng.below(10) == 0 && slurm.now % 3 == 0) {
        bool idle = true;
        for (const auto& [number, job] : slurm.jobs)
          idle = idle && (job.state != "RUNNING" || job.node != node->first);
        if (idle) node->second.strange = {0};
      }
      slurm.tick(1);
    }
    ASSERT_TRUE(slurm.all_done()) << seed;
    for (const auto& [number, job] : slurm.jobs) EXPECT_EQ(job.runs, 1) << seed << " " << number;
  }
}

TEST_F(PlacerTest, slurms_priority_is_the_order) {
  TestSlurm slurm(1);
  std::vector<long> jobs;
  for (const long priority : {100, 300, 200}) {
    TestJob job;
    job.priority = priority;
    jobs.push_back(slurm.submit("7g.80gb", 5, job));
  }
  until_done(slurm);
  EXPECT_LT(slurm.jobs[jobs[1]].started, slurm.jobs[jobs[2]].started);
  EXPECT_LT(slurm.jobs[jobs[2]].started, slurm.jobs[jobs[0]].started);
}

// Small jobs without end, and one that needs all of a GPU.
TEST_F(PlacerTest, a_large_job_does_not_wait_for_ever) {
  TestSlurm slurm(1);
  Placer mine = placer(slurm);
  long large = 0;
  for (int i = 0; i < 300; ++i) {
    slurm.submit("1g.10gb", 7);
    if (i == 10) {
      TestJob job;
      job.priority = 200;
      large = slurm.submit("7g.80gb", 5, job);
    }
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
  }
  ASSERT_EQ(slurm.jobs[large].runs, 1);
  EXPECT_LE(slurm.jobs[large].started - slurm.jobs[large].submitted, settings_.patience_s + 10);
}

// With limits known, what ends before the kept place is free may still use it.
TEST_F(PlacerTest, short_jobs_pass_while_a_place_is_kept) {
  settings_.patience_s = 0;
  TestSlurm slurm(1);
  TestJob limited;
  limited.limit_min = 10;
  slurm.submit("3g.40gb", 600, limited);
  Placer mine = placer(slurm);
  ASSERT_TRUE(look(mine, slurm));
  slurm.tick(1);
  const long large = slurm.submit("7g.80gb", 5, limited);
  limited.limit_min = 5;
  limited.priority = 50;
  const long quick = slurm.submit("3g.40gb", 100, limited);
  limited.limit_min = 60;
  const long slow = slurm.submit("3g.40gb", 100, limited);
  ASSERT_TRUE(look(mine, slurm));
  slurm.tick(1);
  EXPECT_EQ(slurm.jobs[quick].state, "RUNNING");
  EXPECT_EQ(slurm.jobs[slow].state, "PENDING");
  for (int i = 0; i < 700 && slurm.jobs[large].runs == 0; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
  }
  // Handed in as the first began; that ran for 600 s, and it begins at the next tick.
  EXPECT_EQ(slurm.jobs[large].started - slurm.jobs[large].submitted, 601);
}

TEST_F(PlacerTest, what_is_for_others_stays_alone) {
  TestSlurm slurm(1);
  TestJob held, depends;
  held.priority = 0;
  depends.dependency = "afterok:1(unfulfilled)";
  const long one = slurm.submit("1g.10gb", 5, held), two = slurm.submit("1g.10gb", 5, depends);
  slurm.jobs[99].number = 99;  // no mark
  slurm.jobs[99].begin = slurm.now + 400L * 86'400;
  const long later = slurm.submit("1g.10gb", 5);
  slurm.jobs[later].comment = fmt::format("partita shapes=1g.10gb begin={}", slurm.now + 50);
  Placer mine = placer(slurm);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
  }
  for (const long job : {one, two, later, 99L}) EXPECT_EQ(slurm.jobs[job].state, "PENDING") << job;
  slurm.jobs[one].priority = 10;
  slurm.jobs[two].dependency.clear();
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
  }
  for (const long job : {one, two, later}) EXPECT_EQ(slurm.jobs[job].runs, 1) << job;
  EXPECT_GE(slurm.jobs[later].started - slurm.jobs[later].submitted, 50);
}

TEST_F(PlacerTest, nodes_that_a_job_may_have) {
  TestSlurm slurm(4);
  slurm.nodes["g0"].usable = false;
  TestJob excluding, reserved, featured;
  excluding.excluded = "g[0-2]";
  reserved.reservation = "mine";
  featured.features = "a&b";
  slurm.reservations = {{"mine", {"g1"}, slurm.now - 10, slurm.now + 1'000}};
  const long one = slurm.submit("7g.80gb", 5, excluding);
  const long two = slurm.submit("7g.80gb", 5, reserved);
  const long three = slurm.submit("7g.80gb", 5, featured);
  until_done(slurm);
  EXPECT_EQ(slurm.jobs[one].node, "g3");
  EXPECT_EQ(slurm.jobs[two].node, "g1");
  EXPECT_NE(slurm.jobs[three].node, "g1");
  EXPECT_EQ(slurm.refusals, 0);
}

// Which jobs Slurm begins beside reservations of now and later is its double's own rule; what it
// would not begin is never placed, and what it would begin is.
TEST_F(PlacerTest, reservations_that_begin_later) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(10)); ++seed) {
    Rng rng(seed);
    TestSlurm slurm(4);
    const long now = slurm.now;
    slurm.reservations = {{"later", {"g0", "g1"}, now + 200, now + 300},
                          {"upkeep", {"g1", "g2"}, now + 100, now + 400, "MAINT,SPEC_NODES"},
                          {"cores", {"g3"}, now, now + 250, "PART_NODES", {{"g3", 12}}},
                          {"licences", {}, now, now + 250, "ANY_NODES"}};
    for (int i = 0; i < 40; ++i) {
      TestJob job;
      job.limit_min = static_cast<long>(rng.below(6));
      job.cpus = static_cast<int>(1 + rng.below(6));
      const std::size_t whose = rng.below(8);
      if (whose < 3) job.reservation = std::array{"later", "upkeep", "later,cores"}[whose];
      slurm.submit(kShapes[rng.below(6)], static_cast<long>(1 + rng.below(20)), job);
    }
    until_done(slurm, 1'500);
    EXPECT_EQ(slurm.refusals, 0) << seed;
  }
}

TEST_F(PlacerTest, a_reservation_keeps_out_what_would_reach_into_it) {
  TestSlurm slurm(1);
  slurm.reservations = {{"upkeep", {"g0"}, slurm.now + 126, slurm.now + 300, "MAINT"}};
  const auto limited = [&](long minutes, const char* reservation = "") {
    TestJob job;
    job.limit_min = minutes;
    job.reservation = reservation;
    return slurm.submit("1g.10gb", 5, job);
  };
  const long fits = limited(2), reaches = limited(3), endless = limited(0);
  const long within = limited(3, "upkeep");
  const auto state = read_slurm(slurm);
  ASSERT_TRUE(state);
  const PlacerStep step = placer(slurm).step(slurm.now, *state);
  ASSERT_EQ(step.complaints.size(), 2U);
  EXPECT_EQ(step.complaints[0], fmt::format("job {}: no node until reservation upkeep is over; its "
                                            "time limit of 3 min reaches into it",
                                            reaches));
  EXPECT_NE(step.complaints[1].find("of which it has none"), std::string::npos);
  until_done(slurm, 400);
  const auto began = [&](long job) { return slurm.jobs[job].started - slurm.jobs[job].submitted; };
  EXPECT_LE(began(fits), 2);
  EXPECT_GE(began(within), 126);
  EXPECT_LE(began(within), 128);
  for (const long job : {reaches, endless}) EXPECT_GE(began(job), 300) << job;
}

// A year is what Slurm takes for no limit, and what begins later than that is nobody's concern.
TEST_F(PlacerTest, a_reservation_of_the_year_after_next_keeps_nobody_out) {
  TestSlurm slurm(1);
  slurm.reservations = {{"far", {"g0"}, slurm.now + 366L * 86'400, slurm.now + 367L * 86'400}};
  slurm.submit("7g.80gb", 5);
  until_done(slurm, 20);
}

// Made while a job has its place and waits for Slurm to begin it: Slurm never would.
TEST_F(PlacerTest, a_reservation_that_is_made_meanwhile) {
  TestSlurm slurm(2);
  settings_.stuck_s = 1'000;
  const long job = slurm.submit("7g.80gb", 5);
  Placer mine = placer(slurm);
  ASSERT_TRUE(look(mine, slurm));
  const std::string there = slurm.jobs[job].required;
  slurm.reservations = {{"new", {there}, slurm.now + 500, slurm.now + 600}};
  ASSERT_TRUE(look(mine, slurm));
  EXPECT_NE(slurm.jobs[job].required, there);
  until_done(slurm, 20);
}

TEST_F(PlacerTest, an_array_keeps_its_limit) {
  TestSlurm slurm(2);
  const long array = slurm.submit("1g.10gb", 5);
  slurm.jobs[array].array = array;
  slurm.jobs[array].array_tasks = "0-9%3";
  Placer mine = placer(slurm);
  int most = 0, done = 0;
  for (int i = 0; i < 100 && done < 10; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
    int running = 0;
    done = 0;
    for (const auto& [number, job] : slurm.jobs) {
      running += job.state == "RUNNING" ? 1 : 0;
      done += job.runs;
    }
    most = std::max(most, running);
  }
  EXPECT_EQ(done, 10);
  EXPECT_EQ(most, 3);
}

// Slurm does not start a job that has its place: first a limit, then a node that is lost.
TEST_F(PlacerTest, what_slurm_does_not_start_holds_no_place_for_ever) {
  TestSlurm slurm(1);
  TestJob job;
  job.limited = true;
  job.priority = 500;
  const long limited = slurm.submit("7g.80gb", 5, job);
  const long other = slurm.submit("7g.80gb", 5);
  Placer mine = placer(slurm);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
  }
  EXPECT_EQ(slurm.jobs[other].runs, 1);
  slurm.jobs[limited].limited = false;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
  }
  EXPECT_EQ(slurm.jobs[limited].runs, 1);
}

// With its place still in its mark, and soon, but not in the second in which it was ended.
TEST_F(PlacerTest, a_requeued_job_runs_again_a_little_later) {
  TestSlurm slurm(1);
  const long job = slurm.submit("7g.80gb", 10);
  Placer mine = placer(slurm);
  for (int i = 0; i < 30 && slurm.jobs[job].runs == 0; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
    if (i == 5 || i == 12) slurm.requeue(job);
  }
  EXPECT_EQ(slurm.jobs[job].runs, 1);
}

// Nobody looks for two minutes: Slurm would start it where it was, beside whoever is there now.
TEST_F(PlacerTest, a_requeued_job_without_room_is_put_away) {
  TestSlurm slurm(1);
  const long first = slurm.submit("7g.80gb", 100);
  Placer mine = placer(slurm);
  for (int i = 0; i < 4; ++i, slurm.tick(1)) ASSERT_TRUE(look(mine, slurm));
  ASSERT_EQ(slurm.jobs[first].state, "RUNNING");
  slurm.requeue(first);
  ASSERT_TRUE(look(mine, slurm));
  EXPECT_GT(slurm.jobs[first].begin, slurm.now + 86'400);
}

// Until the nodes have told a new slurmctld what runs on them.
TEST_F(PlacerTest, nothing_is_placed_at_once_by_a_new_controller) {
  TestSlurm slurm(1);
  const long job = slurm.submit("7g.80gb", 10);
  slurm.booted = slurm.now;
  Placer mine = placer(slurm);
  for (int i = 0; i < 14; ++i, slurm.tick(1)) ASSERT_TRUE(look(mine, slurm));
  EXPECT_EQ(slurm.jobs[job].started - slurm.booted, 11);
}

// slurmctld is killed again and again, and each time has forgotten which runs ended just before.
TEST_F(PlacerTest, what_slurm_forgot_is_told_again) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(10)); ++seed) {
    Rng rng(seed);
    TestSlurm slurm(4);
    for (int i = 0; i < 30; ++i)
      slurm.submit(kShapes[rng.below(std::size(kShapes))], static_cast<long>(1 + rng.below(20)));
    std::optional<Placer> now;
    for (int i = 0; i < 2'000 && !slurm.all_done(); ++i) {
      if (!now) now.emplace(placer(slurm));
      ASSERT_TRUE(look(*now, slurm));
      slurm.tick(1);
      if (rng.below(40) != 0) continue;
      const auto then = slurm.jobs;
      for (int k = 0; k < 3; ++k) slurm.tick(1);
      slurm.forget(then);
      if (rng.below(2) == 0) now.reset();
      // Before anybody has told it: a node fails, or it misses what it takes for running.
      if (rng.below(3) == 0) slurm.fail_node("g" + std::to_string(rng.below(4)));
      if (rng.below(3) == 0) slurm.tick(20);
    }
    ASSERT_TRUE(slurm.all_done()) << seed;
    for (const auto& [number, job] : slurm.jobs) EXPECT_EQ(job.runs, 1) << seed << " " << number;
  }
}

// Its user has it run again: that is another run.
TEST_F(PlacerTest, a_job_that_is_requeued_after_its_end_runs_again) {
  TestSlurm slurm(1);
  const long job = slurm.submit("7g.80gb", 5);
  Placer mine = placer(slurm);
  for (int i = 0; i < 40 && slurm.jobs[job].runs < 2; ++i) {
    ASSERT_TRUE(look(mine, slurm));
    slurm.tick(1);
    if (slurm.jobs[job].state == "COMPLETED" && slurm.jobs[job].runs == 1) slurm.requeue(job);
  }
  EXPECT_EQ(slurm.jobs[job].runs, 2);
}

// As after `Duplicate jobid`: held, and nothing but the words says why.
TEST_F(PlacerTest, a_job_that_was_not_launched_is_placed_again) {
  for (int commands = 0; commands < 8; ++commands) {
    TestSlurm slurm(1);
    const long job = slurm.submit("7g.80gb", 5);
    slurm.jobs[job].comment = "partita shapes=7g.80gb at=g0:0.0";
    slurm.jobs[job].begin = slurm.now;
    slurm.jobs[job].priority = 0;
    slurm.jobs[job].told = "launch failed requeued held";
    Placer first = placer(slurm);
    slurm.commands_left = commands;
    look(first, slurm);
    slurm.commands_left = -1;
    until_done(slurm, 60);
  }
}

TEST_F(PlacerTest, exclusive_jobs_get_empty_nodes) {
  TestSlurm slurm(2);
  slurm.submit("1g.10gb", 30);
  TestJob job;
  job.exclusive = true;
  const long alone = slurm.submit("1g.10gb", 10, job);
  slurm.submit("1g.10gb", 10);
  until_done(slurm);
  EXPECT_EQ(slurm.refusals, 0);
  EXPECT_LE(slurm.jobs[alone].started - slurm.jobs[alone].submitted, 2);
}

TEST_F(PlacerTest, whole_gpus_are_slurms_until_a_node_refuses) {
  TestSlurm slurm(2);
  slurm.nodes["g0"].strange = {0};
  const long whole = slurm.submit("whole", 5);
  slurm.jobs[whole].begin = slurm.now;
  until_done(slurm, 60);
  EXPECT_EQ(slurm.refusals, 1);
  EXPECT_EQ(slurm.jobs[whole].node, "g1");
}

TEST_F(PlacerTest, damaged_marks_are_complained_about) {
  TestSlurm slurm(1);
  const long job = slurm.submit("1g.10gb", 5);
  slurm.jobs[job].comment = "partita nonsense";
  const auto state = read_slurm(slurm);
  ASSERT_TRUE(state);
  Placer mine = placer(slurm);
  const PlacerStep step = mine.step(slurm.now, *state);
  ASSERT_EQ(step.complaints.size(), 1U);
  EXPECT_TRUE(step.complaints[0].starts_with("job 1: "));
  EXPECT_TRUE(step.commands.empty());
}

}  // namespace
}  // namespace partita::slurm
