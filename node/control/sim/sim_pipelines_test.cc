// Pipelines under an agent in virtual time: while rates move it replans them as one, and what it
// has made is asked of the judge at the rates that come just then, which the agent only forecast.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "control/own_rates.h"
#include "control/sim/testing/test_world.h"
#include "forms/pipeline_form.h"
#include "verify/pipelines.h"

namespace partita::control {
namespace {

constexpr double kHourNs = 3.6e12;

// Two pipelines through one step that has clients of its own; rates are the tops of their days.
constexpr const char* kWays = R"(
services:
  - name: read-signs
    rate_rps: 160
    slo_ms: 400
    pipeline:
      steps:
        - {model_name: inceptionv3, input_map: {x: picture}, output_map: {y: crops}}
        - {model_name: resnet50, fan_out: 3, input_map: {x: crops}, output_map: {y: signs}}
  - name: sort
    rate_rps: 120
    slo_ms: 300
    percentile: 98
    pipeline:
      steps:
        - {model_name: densenet121, input_map: {x: picture}, output_map: {y: features}}
        - {model_name: resnet50, input_map: {x: features}, output_map: {y: sorts}}
  - {name: resnet50, model: resnet50, rate_rps: 200, slo_ms: 150}
)";

class PipelinesUnderAnAgent : public testing::Test {
 protected:
  PipelinesUnderAnAgent() {
    WeeksOptions options = weeks_of_tests("ways", 8, 1, 5, kWays);
    options.shape.bursts_per_day = options.shape.shifts_per_day = 0;
    auto weeks = SimWeeks::begin(std::move(options));
    CHECK(weeks.has_value());
    weeks_ = *std::move(weeks);
    weeks_->recorded = [this](const history::Event& event) {
      if (event.kind == history::EventKind::applied) changed_h_.push_back(hours());
    };
  }
  double hours() const { return static_cast<double>(weeks_->node().now_ns()) / kHourNs; }

  // The pools that serve now, as the gateway runs them.
  verify::Pools pools() const {
    verify::Pools pools;
    const actuate::Assignment now = weeks_->node().assignment();
    for (const plan::Terms& row : now.services) {
      std::vector<plan::PoolMember> members;
      for (const actuate::AssignedSegment& one : now.segments) {
        if (one.service != row.name) continue;
        const auto& gpu = a100_of_tests().gpu;
        const int gpcs =
            gpu.profiles[static_cast<std::size_t>(gpu.profile_index(one.profile))].gpcs;
        members.push_back({profile::batch_curve(a100_of_tests().profiles.at(row.model), gpcs,
                                                one.processes, one.batch),
                           one.processes});
      }
      if (!members.empty())
        pools.emplace(row.name,
                      plan::pooled_policy(std::move(members), std::llround(row.slo.value * 1e6)));
    }
    return pools;
  }
  // The services as they are asked for in this minute.
  std::vector<plan::Terms> asked() const {
    std::vector<plan::Terms> all;
    for (std::size_t s = 0; s < weeks_->node().services().size(); ++s) {
      all.push_back(weeks_->node().services()[s].wanted);
      all.back().rate = Rps{weeks_->node().rate(s)};
    }
    return all;
  }
  bool calm(const Snapshot& now) const {
    const double changed = changed_h_.empty() ? 0 : changed_h_.back();
    return now.converged && hours() > changed + 0.05;
  }
  void judge(const Snapshot& now) {
    ++judged_;
    for (const auto& [name, verdict] : verify::judge_pipelines(asked(), pools()))
      EXPECT_TRUE(verdict.stable && verdict.holds)
          << fmt::format("{:.3f} h: {} has {:.2f} % late ({})", hours(), name, 100 * verdict.late,
                         now.plan->explanation.back());
    for (const ServiceNow& one : now.services)
      EXPECT_EQ(one.is.verdict, Standing::serves) << hours() << " h: " << one.is.why;
  }

  std::unique_ptr<SimWeeks> weeks_;
  std::vector<double> changed_h_;
  int judged_ = 0;
};

TEST_F(PipelinesUnderAnAgent, KeepTheirPromiseOfTheWholeWayWhileRatesMove) {
  double next_h = 0.2;
  bool steps_follow = true;
  while (hours() < 14 && weeks_->step()) {
    const Snapshot* const now = weeks_->snapshot();
    if (now == nullptr || !now->plan) continue;
    // What is planned for a step is what the plan has for its pipelines and its own clients.
    std::vector<plan::Service> rows(now->plan->services.begin(), now->plan->services.end());
    const std::vector<plan::Service> again = at_whole_rates(forms::at_own_rates(rows));
    for (std::size_t s = 0; s < rows.size(); ++s)
      steps_follow = steps_follow && std::abs(rows[s].rate.value - again[s].rate.value) < 1e-6;
    if (hours() < next_h || !calm(*now)) continue;
    next_h = hours() + 0.5;
    judge(*now);
  }
  EXPECT_TRUE(steps_follow);
  EXPECT_GT(judged_, 20);
  // What the judge was asked about was made in few changes.
  EXPECT_GE(changed_h_.size(), 1u);
  EXPECT_LE(changed_h_.size(), 25u) << testing::PrintToString(changed_h_);
  const auto report = weeks_->report();
  ASSERT_TRUE(report) << to_string(report.error());
  for (const ServiceWeeks& one : report->services)
    EXPECT_GT(one.attainment, one.percentile / 100 - 0.005) << one.name;
}

}  // namespace
}  // namespace partita::control
