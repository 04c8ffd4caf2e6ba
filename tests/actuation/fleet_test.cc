// The simulation fleet: random histories of a node, each from one seed (fleet.h). The environment
// variable PARTITA_SEEDS says how many seeds are run instead of the usual few hundred, from
// PARTITA_FIRST_SEED on (1); PARTITA_SEED runs one seed and tells everything that happens.
#include "fleet.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "base/source_text.h"
#include "base/test_rounds.h"

namespace partita::actuation_tests {
namespace {

long seed_in(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atol(text);
}

std::string how_to_see(std::uint64_t seed) {
  return fmt::format("see PARTITA_SEED={} tests_actuation --gtest_filter=Fleet.OneSeed", seed);
}

struct Totals {
  long seeds = 0, failed = 0, operations = 0, transactions = 0, deaths = 0, refusals = 0;
  long guarded = 0, destroyed = 0;
  int reconciles = 0, causes = 0;
  std::map<std::string, long> counts;

  void add(const FleetResult& one) {
    ++seeds;
    failed += one.violations.empty() ? 0 : 1;
    operations += one.operations;
    transactions += one.transactions;
    deaths += one.deaths;
    refusals += one.refusals;
    guarded += one.guarded;
    destroyed += one.destroyed;
    reconciles = std::max(reconciles, one.reconciles);
    causes = std::max(causes, one.causes);
    for (const auto& [word, count] : one.counts) counts[word] += count;
  }
  std::string text() const {
    std::string all = fmt::format(
        "seeds {}, failed {}, operations {}, transactions {}, deaths {}, refusals {}, instances to "
        "stay {}, destroyed {}, most reconciles in calm {}, most causes in calm {}\n",
        seeds, failed, operations, transactions, deaths, refusals, guarded, destroyed, reconciles,
        causes);
    for (const auto& [word, count] : counts) all += fmt::format("  {} {}\n", count, word);
    return all;
  }
};

void run_and_judge(std::uint64_t seed, Totals& totals) {
  const FleetResult result = run_fleet(seed);
  totals.add(result);
  if (result.violations.empty()) return;
  ADD_FAILURE() << "seed " << seed << ": " << result.violations.front() << "; " << how_to_see(seed);
}

TEST(Fleet, KeepsTheRulesAndConverges) {
  const long count = seed_in("PARTITA_SEEDS", test_rounds(150));
  const long first = seed_in("PARTITA_FIRST_SEED", 1);
  Totals totals;
  for (long seed = first; seed < first + count; ++seed) {
    run_and_judge(static_cast<std::uint64_t>(seed), totals);
  }
  if (std::getenv("PARTITA_SEEDS") != nullptr) fmt::print("{}", totals.text());
  if (count < 150) return;
  // The faults do happen, and there is something to keep.
  for (const char* const word : {"back", "calm", "death", "disk-error", "driver-error", "hang",
                                 "intruder", "lost", "read-error", "reboot", "retry", "stray",
                                 "stray-leaves", "supervisor-death", "worker-crash"}) {
    EXPECT_GT(totals.counts[word], count / 100) << word;
  }
  EXPECT_GT(totals.guarded, count);
  EXPECT_GT(totals.destroyed, count);
}

// Seeds that once found something, each with a sentence of what it was.
TEST(Fleet, SeedsThatFoundSomething) {
  std::istringstream file(source_text("tests/actuation/seeds.txt"));
  Totals totals;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uint64_t seed = 0;
    if (line.starts_with('#') || !(words >> seed)) continue;
    run_and_judge(seed, totals);
  }
  EXPECT_GT(totals.seeds, 0);
}

TEST(Fleet, TheSameSeedIsTheSameHistory) {
  std::set<std::uint64_t> hashes;
  const std::uint64_t count = 6;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const FleetResult once = run_fleet(seed);
    EXPECT_EQ(once.hash, run_fleet(seed).hash) << "seed " << seed;
    hashes.insert(once.hash);
  }
  EXPECT_EQ(hashes.size(), count);
}

TEST(Fleet, OneSeed) {
  const auto seed = static_cast<std::uint64_t>(seed_in("PARTITA_SEED", 1));
  std::FILE* const echo = std::getenv("PARTITA_SEED") == nullptr ? nullptr : stdout;
  for (const std::string& violation : run_fleet(seed, echo).violations) {
    ADD_FAILURE() << violation;
  }
}

}  // namespace
}  // namespace partita::actuation_tests
