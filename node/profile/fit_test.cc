#include "profile/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/rng.h"
#include "base/source_text.h"
#include "hw/catalogue.h"
#include "profile/testing/published.h"

namespace partita::profile {
namespace {

const hw::GpuModel& a100() { return **hw::builtin_catalogue().get("A100-80GB"); }

// A convolutional network of middling size.
PerformanceLaw known_law() {
  PerformanceLaw law;
  law.model = "m";
  law.launch_ms = 6;
  law.contention_ms = 0.2;
  law.host_ms = 0.1;
  law.compute_sm_ms = 20;
  law.serial_ms = 0.1;
  law.traffic_mb = 300;
  law.ramp_requests = 1;
  law.sharpness = 5;
  law.process_mib = 600;
  law.request_mib = 150;
  return law;
}

// The law's points on the published grid, with normal noise of this relative width; the rest of the
// grid did not run.
WorkloadProfile measured(const PerformanceLaw& law, double noise, std::uint64_t seed) {
  WorkloadProfile profile = table_from_laws({"A100-80GB", "", {law}}, a100())->at(law.model);
  Rng rng(seed);
  for (ProfilePoint& p : profile.points) {
    double normal = -6;
    for (int i = 0; i < 12; ++i) normal += rng.uniform();
    p.throughput = p.throughput * (1 + noise * normal);
    p.memory.reset();  // as in the published data: only what did not run tells about memory
    p.learned_on.reset();
  }
  for (const int gpcs : {1, 2, 3, 4, 7})
    for (int processes = 1; processes <= 5; ++processes)
      for (int batch = 1; batch <= 256; batch *= 2)
        if (!find_point(profile, gpcs, batch, processes))
          profile.no_runs.push_back({gpcs, batch, processes});
  return profile;
}

double worst_error(const PerformanceLaw& law, const WorkloadProfile& truth) {
  return quantile(*errors(law, truth, a100()), 1);
}

TEST(Fit, RecoversTheLawFromNoisyPoints) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Result<PerformanceLaw> law = fit(measured(known_law(), 0.02, seed), a100());
    ASSERT_TRUE(law);
    EXPECT_LT(worst_error(*law, measured(known_law(), 0, 0)), 0.03);
    EXPECT_NEAR(law->launch_ms, 6, 0.1);
    EXPECT_NEAR(law->contention_ms, 0.2, 0.1);
    EXPECT_NEAR(law->compute_sm_ms, 20, 2);
    EXPECT_NEAR(law->traffic_mb, 300, 45);
    EXPECT_NEAR(law->ramp_requests, 1, 0.3);
    EXPECT_NEAR(law->host_ms, 0.1, 0.03);
  }
}

TEST(Fit, IsNotMisledByOutliers) {
  WorkloadProfile profile = measured(known_law(), 0.02, 1);
  for (std::size_t i = 0; i < profile.points.size(); i += 20) {
    profile.points[i].throughput = profile.points[i].throughput * 2;
  }
  const Result<PerformanceLaw> law = fit(profile, a100());
  ASSERT_TRUE(law);
  EXPECT_LT(worst_error(*law, measured(known_law(), 0, 0)), 0.04);
  const Result<std::vector<ProfilePoint>> suspicious = suspects(*law, profile, a100());
  ASSERT_TRUE(suspicious);
  EXPECT_EQ(suspicious->size(), (profile.points.size() + 19) / 20);
  for (const ProfilePoint& p : *suspicious) {
    const auto found = std::find(profile.points.begin(), profile.points.end(), p);
    EXPECT_EQ((found - profile.points.begin()) % 20, 0);
  }
}

TEST(Fit, PredictsAnotherGpuFromTheSameCoefficients) {
  const Result<PerformanceLaw> law = fit(measured(known_law(), 0.02, 1), a100());
  const hw::GpuModel& h100 = **hw::builtin_catalogue().get("H100-80GB-SXM5");
  const Result<ProfileTable> truth = table_from_laws({"", "", {known_law()}}, h100);
  ASSERT_TRUE(law && truth);
  EXPECT_LT(quantile(*errors(*law, truth->at("m"), h100), 1), 0.05);
}

TEST(Fit, TellsWhatRunsFromWhatDidNotRun) {
  const WorkloadProfile profile = measured(known_law(), 0, 0);
  const Result<PerformanceLaw> law = fit(profile, a100());
  const Result<MemoryScore> score = memory_score(*law, profile, a100());
  ASSERT_TRUE(score);
  EXPECT_EQ(score->rows, 225);
  EXPECT_EQ(score->right, 225);
  EXPECT_NEAR(law->request_mib, 150, 30);
  EXPECT_NEAR(law->process_mib, 600, 300);
}

TEST(Fit, MemoryIsUnknownWhenEverythingRan) {
  PerformanceLaw law = known_law();
  law.process_mib = law.request_mib = 0;
  EXPECT_FALSE(fit(measured(law, 0, 0), a100())->knows_memory());
}

TEST(Fit, WhatWasNeverTriedSaysNothing) {
  // Without the rows that did not run: 225 combinations, of which the rest is not known.
  WorkloadProfile profile = measured(known_law(), 0, 0);
  ASSERT_FALSE(profile.no_runs.empty());
  profile.no_runs.clear();
  const Result<PerformanceLaw> law = fit(profile, a100());
  ASSERT_TRUE(law);
  EXPECT_FALSE(law->knows_memory());
  const MemoryScore score = *memory_score(*law, profile, a100());
  EXPECT_EQ(score.rows, static_cast<int>(profile.points.size()));
  EXPECT_EQ(score.right, score.rows);
}

TEST(Fit, OneRowThatDidNotRunIsKnowledgeOfIt) {
  WorkloadProfile profile{"m", {}};
  for (const auto& [gpcs, batch, processes] :
       {std::tuple(1, 1, 1), {1, 8, 1}, {2, 8, 2}, {3, 16, 2}, {4, 32, 2}, {7, 32, 3}})
    profile.points.push_back(predict(known_law(), *partition(a100(), gpcs), batch, processes));
  for (ProfilePoint& p : profile.points) p.memory.reset();
  profile.no_runs = {{1, 256, 5}, {5, 1, 1}};  // an A100 has no instance of five GPCs
  const Result<PerformanceLaw> law = fit(profile, a100());
  ASSERT_TRUE(law) << to_string(law.error());
  EXPECT_TRUE(law->knows_memory());
  const MemoryScore score = *memory_score(*law, profile, a100());
  EXPECT_EQ(score.rows, 7);
  EXPECT_EQ(score.right, 7);
  EXPECT_FALSE(fits(*law, *partition(a100(), 1), 256, 5));
}

TEST(Fit, UsesMeasuredMemory) {
  WorkloadProfile profile = measured(known_law(), 0, 0);
  for (ProfilePoint& p : profile.points) p.memory = Mib{p.processes * (700.0 + 80.0 * p.batch)};
  const Result<PerformanceLaw> law = fit(profile, a100());
  ASSERT_TRUE(law);
  EXPECT_NEAR(law->process_mib, 700, 1e-6);
  EXPECT_NEAR(law->request_mib, 80, 1e-6);
}

TEST(Fit, OnePointIsReproducedAndNoPointIsRefused) {
  WorkloadProfile profile{"m", {measured(known_law(), 0, 0).points.front()}, {}};
  const Result<PerformanceLaw> law = fit(profile, a100());
  ASSERT_TRUE(law);
  EXPECT_LT(worst_error(*law, profile), 0.02);
  EXPECT_FALSE(leave_one_out(*law, profile, a100()));
  EXPECT_FALSE(fit({"m", {}}, a100()));
  profile.points[0].gpcs = 5;
  EXPECT_FALSE(fit(profile, a100()));
}

TEST(LeaveOneOut, IsTheNoiseWhenTheLawIsTrue) {
  const WorkloadProfile profile = measured(known_law(), 0.02, 4);
  const Result<PerformanceLaw> law = fit(profile, a100());
  const Result<std::vector<double>> unseen = leave_one_out(*law, profile, a100());
  ASSERT_TRUE(unseen);
  ASSERT_EQ(unseen->size(), profile.points.size());
  // The median of |normal| is 0.674 of its width.
  EXPECT_NEAR(quantile(*unseen, 0.5), 0.02 * 0.674, 0.003);
}

TEST(Quantile, IsTheOrderStatistic) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

// The shipped laws against the published measurements that they were fitted to.
class PublishedData : public testing::Test {
 protected:
  static WorkloadProfile measured(const std::string& model) {
    return published_profiles().at(model);
  }

  std::vector<PerformanceLaw> laws_ =
      parse_laws("laws", source_text("data/profiles/a100-80gb.json"))->laws;
};

TEST_F(PublishedData, ErrorsAreSmall) {
  EXPECT_EQ(laws_.size(), 11u);
  for (const PerformanceLaw& law : laws_) {
    const std::vector<double> error = *errors(law, measured(law.model), a100());
    EXPECT_LT(quantile(error, 0.5), law.model == "bert" ? 0.06 : 0.03) << law.model;
    EXPECT_LT(quantile(error, 0.9), 0.2) << law.model;
  }
}

TEST_F(PublishedData, AShippedLawIsWhatFitGivesAndHoldsForPointsLeftOut) {
  for (const PerformanceLaw& law : laws_) {
    if (law.model != "resnet50" && law.model != "densenet169") continue;  // the others take as long
    const WorkloadProfile profile = measured(law.model);
    const PerformanceLaw again = *fit(profile, a100());
    for (const Coefficient& c : kCoefficients) {
      EXPECT_NEAR(again.*c.member, law.*c.member, 0.01 * law.*c.member) << c.name;
    }
    EXPECT_LT(quantile(*leave_one_out(law, profile, a100()), 0.5), 0.03) << law.model;
  }
}

TEST_F(PublishedData, WhatRunsIsToldRightlyInAllButSixOf2475Rows) {
  int right = 0, rows = 0;
  for (const PerformanceLaw& law : laws_) {
    WorkloadProfile profile = measured(law.model);
    for (const int gpcs : {1, 2, 3, 4, 7}) {
      for (int batch = 1; batch <= 256; batch *= 2) {
        for (int processes = 1; processes <= 5; ++processes, ++rows) {
          const bool ran = find_point(profile, gpcs, batch, processes) != nullptr;
          right += ran == fits(law, *partition(a100(), gpcs), batch, processes);
        }
      }
    }
  }
  EXPECT_EQ(rows, 2475);
  EXPECT_GE(right, 2469);
}

// Suspect points apart, which no instance can reach.
TEST_F(PublishedData, TheBestThroughputOfEverySizeIsReproduced) {
  for (const PerformanceLaw& law : laws_) {
    const WorkloadProfile profile = measured(law.model);
    const std::vector<ProfilePoint> suspicious = *suspects(law, profile, a100());
    for (const int gpcs : {1, 2, 3, 4, 7}) {
      Rps best_measured, best_predicted;
      for (const ProfilePoint& p : profile.points) {
        const bool suspect = std::find(suspicious.begin(), suspicious.end(), p) != suspicious.end();
        if (p.gpcs != gpcs || suspect) continue;
        best_measured = std::max(best_measured, p.throughput);
        best_predicted =
            std::max(best_predicted,
                     predict(law, *partition(a100(), gpcs), p.batch, p.processes).throughput);
      }
      // Cautious rather than bold: bert's large batches are up to 18 % faster than its law.
      EXPECT_GT(best_predicted / best_measured, law.model == "bert" ? 0.8 : 0.84) << law.model;
      EXPECT_LT(best_predicted / best_measured, 1.06) << law.model << " " << gpcs;
    }
  }
}

}  // namespace
}  // namespace partita::profile
