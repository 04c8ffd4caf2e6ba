#include "profile/law.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "base/source_text.h"
#include "hw/catalogue.h"

namespace partita::profile {
namespace {

const hw::GpuModel& gpu(const char* name) { return **hw::builtin_catalogue().get(name); }

// 3 ms to launch, 4 ms on 14 SMs, a soft maximum that is sqrt(x^2 + y^2).
PerformanceLaw simple_law() {
  PerformanceLaw law;
  law.model = "m";
  law.launch_ms = 3;
  law.compute_sm_ms = 56;
  law.sharpness = 2;
  return law;
}

constexpr Partition kOneSlice{1, 14, 250, Mib{9728}};

TEST(Predict, OneProcessAddsLaunchAndDeviceSoftly) {
  const ProfilePoint point = predict(simple_law(), kOneSlice, 1, 1);
  EXPECT_DOUBLE_EQ(point.latency.value, 5);  // 3-4-5 triangle
  EXPECT_DOUBLE_EQ(point.throughput.value, 200);
  EXPECT_EQ(point.gpcs, 1);
  EXPECT_FALSE(point.memory.has_value());
}

TEST(Predict, ProcessesShareTheDevice) {
  // Three processes need 12 ms of the device; each alone takes 5: sqrt(5^2 + 12^2) = 13.
  const ProfilePoint point = predict(simple_law(), kOneSlice, 1, 3);
  EXPECT_DOUBLE_EQ(point.latency.value, 13);
  EXPECT_DOUBLE_EQ(point.throughput.value, 3000.0 / 13);
}

TEST(Predict, EveryCoefficientHasItsUnit) {
  PerformanceLaw law;
  law.launch_ms = 1e-9;  // all that is left is the device and the host
  law.compute_sm_ms = 28;
  law.serial_ms = 0.5;
  law.traffic_mb = 125;
  law.ramp_requests = 2;
  law.host_ms = 0.25;
  law.sharpness = 50;
  // (6 + 2) requests x (28 / 14 + 0.5 + 125 / 250) ms + 6 x 0.25 ms.
  EXPECT_NEAR(predict(law, kOneSlice, 6, 1).latency.value, 8 * 3 + 1.5, 1e-9);
  law.launch_ms = 100;
  law.contention_ms = 10;
  // Two further processes lengthen the launch by 20 ms; the device (72 ms) hides behind it.
  EXPECT_NEAR(predict(law, kOneSlice, 6, 3).latency.value, 120 + 1.5, 1e-6);
}

TEST(Predict, MemoryGrowsWithProcessesAndRequests) {
  PerformanceLaw law = simple_law();
  law.process_mib = 500;
  law.request_mib = 100;
  EXPECT_EQ(predict(law, kOneSlice, 8, 2).memory, Mib{2600});
  EXPECT_TRUE(fits(law, kOneSlice, 92, 1));   // 9700 of 9728 MiB
  EXPECT_FALSE(fits(law, kOneSlice, 93, 1));  // 9800
  EXPECT_TRUE(fits(simple_law(), kOneSlice, kMaxBatch, kMaxProcesses));
}

TEST(PartitionOf, TakesSmsMemoryAndBandwidthShareFromTheCatalogue) {
  const Result<Partition> three = partition(gpu("A100-80GB"), 3);
  ASSERT_TRUE(three) << to_string(three.error());
  EXPECT_EQ(three->sms, 42);
  EXPECT_EQ(three->memory, Mib{40192});
  EXPECT_DOUBLE_EQ(three->bandwidth_gb_s, 2039.0 / 2);  // 4 of 8 memory slices
  EXPECT_EQ(partition(gpu("H100-80GB-SXM5"), 3)->sms, 60);
  EXPECT_FALSE(partition(gpu("A100-80GB"), 5));
  hw::GpuModel unknown = gpu("A100-80GB");
  unknown.name = "home-made";
  EXPECT_FALSE(partition(unknown, 1));
}

TEST(PartitionOf, EverySizeOfEveryShippedGpuThatStatesItsSmsIsKnown) {
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) {
    for (const hw::MigProfile& profile : model.profiles) {
      if (!profile.plain() || !profile.sms || !profile.memory) continue;
      EXPECT_TRUE(partition(model, profile.gpcs)) << model.name << " " << profile.name;
    }
  }
}

TEST(TableFromLaws, CoversTheGridAndLeavesOutWhatDoesNotFit) {
  PerformanceLaws laws{"A100-80GB", "", {simple_law()}};
  EXPECT_EQ(table_from_laws(laws, gpu("A100-80GB"))->at("m").points.size(), 5u * 9 * 5);
  laws.laws[0].request_mib = 1024;
  const Result<ProfileTable> table = table_from_laws(laws, gpu("A100-80GB"));
  const WorkloadProfile& workload = table->at("m");
  // 9.5, 19.5, 39.25, 39.25 and 78.75 GiB hold 9, 19, 39, 39 and 78 requests of all processes.
  const std::pair<int, int> room[] = {{1, 9}, {2, 19}, {3, 39}, {4, 39}, {7, 78}};
  for (const auto& [gpcs, requests] : room) {
    for (int processes = 1; processes <= 5; ++processes) {
      for (int batch = 1; batch <= 256; batch *= 2) {
        EXPECT_EQ(find_point(workload, gpcs, batch, processes) != nullptr,
                  batch * processes <= requests);
      }
    }
  }
}

RC_GTEST_PROP(LawsJson, WhatIsPrintedIsReadBack, ()) {
  PerformanceLaws laws{"A100-80GB", *rc::gen::element("", "a \"lab\"\n"), {}};
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) {
    PerformanceLaw law;
    law.model = "model " + std::to_string(i);
    for (const Coefficient& c : kCoefficients) {
      const double share = *rc::gen::inRange(0, 1 << 20) / 1048576.0;
      law.*c.member = std::max(c.min, c.max * std::pow(share, 9));
    }
    laws.laws.push_back(law);
  }
  const Result<PerformanceLaws> again = parse_laws("l.json", laws_json(laws));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == laws);
}

std::string laws_error(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  const Result<PerformanceLaws> laws = parse_laws("l.json", text);
  return laws ? "accepted" : to_string(laws.error());
}

TEST(LawsJson, RefusesWhatItCannotTrust) {
  const std::string good = laws_json({"A100-80GB", "", {simple_law()}});
  EXPECT_EQ(laws_error(good, "partita/v1", "partita/v2"),
            "l.json:2: 'api_version' is 'partita/v2', must be 'partita/v1'");
  EXPECT_EQ(laws_error(good, "PerformanceLaws", "ServingPlan"),
            "l.json:3: 'kind' is 'ServingPlan', must be 'PerformanceLaws'");
  EXPECT_EQ(laws_error(good, "\"launch_ms\": 3.0", "\"launch_ms\": -3"),
            "l.json:8: 'launch_ms' is -3, must be at least 1e-09");
  EXPECT_EQ(laws_error(good, "\"launch_ms\": 3.0", "\"lunch_ms\": 3"),
            "l.json:8: unknown key 'lunch_ms'; did you mean 'launch_ms'?");
  EXPECT_EQ(laws_error(good, "\"model\": \"m\"", "\"model\": \"\""), "l.json:7: 'model' is empty");
  EXPECT_EQ(laws_error(good, "\"A100-80GB\"", "7").substr(0, 9), "l.json:4:");
  EXPECT_EQ(laws_error(good, "\"launch_ms\": 3.0", "\"launch_ms\": \"x\"").substr(0, 9),
            "l.json:8:");
  EXPECT_EQ(laws_error(good, "]", "").substr(0, 6), "l.json");
  const std::string twice = laws_json({"A100-80GB", "", {simple_law(), simple_law()}});
  EXPECT_EQ(laws_error(twice, "\n", "\n"),
            "l.json:19: model 'm' repeated or not in ascending order");
}

TEST(ShippedLaws, AreElevenInTheirCanonicalForm) {
  const std::string text = source_text("data/profiles/a100-80gb.json");
  const Result<PerformanceLaws> laws = parse_laws("a100-80gb.json", text);
  ASSERT_TRUE(laws) << to_string(laws.error());
  EXPECT_EQ(laws->gpu_model, "A100-80GB");
  EXPECT_EQ(laws->laws.size(), 11u);
  EXPECT_EQ(laws_json(*laws), text);
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) {
    const Result<ProfileTable> table = table_from_laws(*laws, model);
    if (!table) continue;  // SMs not published
    EXPECT_EQ(table->size(), 11u) << model.name;
    for (const auto& [name, workload] : *table) {
      for (const ProfilePoint& p : workload.points) {
        EXPECT_NEAR(p.latency.value * p.throughput.value, 1000.0 * p.batch * p.processes, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace partita::profile
