#include "fleet/testing/fleet_sim.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/test_rounds.h"

namespace partita::fleet {
namespace {

int number_of(const char* name, int standard) {
  const char* value = std::getenv(name);
  return value == nullptr ? standard : std::atoi(value);
}

FleetSimReport hold_for(int first, int count, bool tells = false) {
  const int hours = number_of("PARTITA_FLEET_HOURS", test_rounds(10) < 10 ? 1 : 2);
  const std::clock_t begun = std::clock();
  FleetSimReport all;
  int longest = first;
  for (int seed = first; seed < first + count; ++seed) {
    const FleetSimReport report =
        simulate_fleet({.seed = static_cast<std::uint64_t>(seed), .hours = hours, .tells = tells});
    for (const std::string& line : report.story) std::printf("%s\n", line.c_str());
    for (const std::string& wrong : report.wrong) ADD_FAILURE() << "seed " << seed << ": " << wrong;
    all.deaths += report.deaths, all.cuts += report.cuts, all.outages += report.outages;
    all.approvals += report.approvals, all.stuck += report.stuck;
    all.leaders_killed += report.leaders_killed, all.wishes += report.wishes;
    all.asked += report.asked, all.asked_in_vain += report.asked_in_vain;
    all.jobs += report.jobs, all.jobs_done += report.jobs_done, all.attempts += report.attempts;
    all.language += report.language, all.groups += report.groups;
    all.feeds_lost += report.feeds_lost, all.fell_out += report.fell_out;
    all.decisions += report.decisions, all.parts += report.parts, all.turns += report.turns;
    if (report.longest_short_ms > all.longest_short_ms) longest = seed;
    all.longest_short_ms = std::max(all.longest_short_ms, report.longest_short_ms);
  }
  const double minutes = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC / 60;
  std::printf(
      "%d seeds of %d h, %.1f seeds a CPU-minute: %d deaths, %d cuts, %d leaders killed, "
      "%d outages, %d stuck, %d wishes, %d approvals; %ld decisions, %ld parts, %ld turns; a "
      "service was "
      "short for %.1f s at most (seed %d); %ld services in calm hours, %ld of them carried by "
      "nobody; %d language models; %ld jobs, %ld done, begun %ld times; %d feeds lost, %d GPUs "
      "fell "
      "out, %ld groups made\n",
      count, hours, count / minutes, all.deaths, all.cuts, all.leaders_killed, all.outages,
      all.stuck, all.wishes, all.approvals, all.decisions, all.parts, all.turns,
      1e-3 * static_cast<double>(all.longest_short_ms), longest, all.asked, all.asked_in_vain,
      all.language, all.jobs, all.jobs_done, all.attempts, all.feeds_lost, all.fell_out,
      all.groups);
  return all;
}

// PARTITA_FLEET_SEED=N tells the story of one; PARTITA_FLEET_SEEDS=N runs so many, and
// PARTITA_FLEET_HOURS=H so long each.
TEST(FleetSim, HoldsForEachSeed) {
  const int one = number_of("PARTITA_FLEET_SEED", -1);
  const int first = one >= 0 ? one : number_of("PARTITA_FLEET_FIRST", 0);
  hold_for(first, one >= 0 ? 1 : number_of("PARTITA_FLEET_SEEDS", test_rounds(8)), one >= 0);
}

TEST(FleetSim, HoldsWithLanguageModelsAndJobsBeside) {
  // The first of them has both, where there is time for one alone.
  const FleetSimReport all = hold_for(static_cast<int>(kFirstBeside) + 1, test_rounds(4));
  EXPECT_GT(all.jobs_done, 0);
  EXPECT_GT(all.language, 0);
}

TEST(FleetSim, HoldsWithFeedsAndLinkedGpus) {
  // The first of them has them all, where there is time for one alone.
  const FleetSimReport all = hold_for(static_cast<int>(kFirstPlaces) + 4, test_rounds(4));
  EXPECT_GT(all.feeds_lost, 0);
  EXPECT_GT(all.fell_out, 0);
  EXPECT_GT(all.groups, 0);
}

TEST(FleetSim, SameSeedIsTheSameStory) {
  std::vector<std::uint64_t> seeds{kFirstPlaces + 3, 3, kFirstBeside + 2};
  seeds.resize(static_cast<std::size_t>(test_rounds(3)));
  for (const std::uint64_t seed : seeds) {
    const FleetSimOptions options{.seed = seed, .hours = 1, .tells = true};
    EXPECT_EQ(simulate_fleet(options).story, simulate_fleet(options).story);
  }
}

// With pipelines.
TEST(FleetSim, WhatIsRememberedTogetherChangesNoStory) {
  FleetSimOptions options{.seed = 8011, .hours = 1, .tells = true};
  const FleetSimReport together = simulate_fleet(options);
  options.remembers = false;
  const FleetSimReport apart = simulate_fleet(options);
  EXPECT_GT(together.parts, 0);
  EXPECT_EQ(together.story, apart.story);
}

}  // namespace
}  // namespace partita::fleet
