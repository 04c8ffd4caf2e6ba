#include "hw/telemetry/dcgm.h"

#include <gtest/gtest.h>

namespace partita::telemetry {
namespace {

constexpr const char* kScrape = R"(# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-5",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",p="a,\"c"} 155.25
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-5",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 156
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"} 5000250
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-5",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"} 0.75
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-5",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 1.31
DCGM_FI_PROF_DRAM_UTIL_RATIO{gpu="0",UUID="GPU-5",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 0.5
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-5",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 812
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-6"} 41
DCGM_FI_DEV_MEMORY_TEMP{gpu="1",UUID="GPU-6"} 9223372036854775794
DCGM_FI_DEV_XID_ERRORS{gpu="1"} 0
go_gc_duration_seconds 0.1
)";

TEST(Dcgm, ExporterTextBecomesASample) {
  const auto log = read_dcgm_text(kScrape, "scrape", Seconds{12});
  ASSERT_TRUE(log) << to_string(log.error());
  ASSERT_EQ(log->size(), 1u);
  ASSERT_EQ(log->front().gpus.size(), 2u);
  const GpuSample& gpu = log->front().gpus[0];
  EXPECT_EQ(gpu.uuid, "GPU-5");
  EXPECT_EQ(gpu.power, Watts{155.25});
  EXPECT_EQ(gpu.energy, Joules{5000.25});
  ASSERT_EQ(gpu.instances.size(), 2u);
  EXPECT_EQ(gpu.instances[0].gi_id, 1);
  EXPECT_EQ(gpu.instances[0].compute_slices, 3);
  EXPECT_EQ(gpu.instances[0].activity.sm, 1) << "more than all of an instance is all of it";
  EXPECT_EQ(gpu.instances[0].activity.dram, 0.5);
  EXPECT_EQ(gpu.instances[0].memory_used, Mib{812});
  EXPECT_EQ(gpu.instances[1].activity.graphics_engine, 0.75);
  EXPECT_EQ(log->front().gpus[1].temperature, Celsius{41});
  EXPECT_FALSE(log->front().gpus[1].memory_temperature) << "a blank of DCGM";
}

TEST(Dcgm, TimeStampsMakeSamples) {
  const auto log = read_dcgm_text(
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 60 1732284001500\n"
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 50 1732284000500\n",
      "f", Seconds{0});
  ASSERT_TRUE(log) << to_string(log.error());
  ASSERT_EQ(log->size(), 2u);
  EXPECT_EQ((*log)[0].at, Seconds{1732284000.5});
  EXPECT_EQ((*log)[1].gpus[0].power, Watts{60});
}

TEST(Dcgm, DmonRowsBecomeSamples) {
  const auto log = read_dcgm_dmon(
      "#Entity   GRACT   SMACT   DRAMA   POWER   TOTEC   PSTAT\n"
      "ID                                 W       mJ\n"
      "GPU 0     N/A     N/A     N/A     60.5    1000    0\n"
      "GPU-I 7   0.25    0.2     0.1     N/A     N/A     N/A\n"
      "GPU 1     0.5     0.4     0.3     70      2000    0\n"
      "GPU 0     N/A     N/A     N/A     61      62000   0\n",
      "d", {.start = Seconds{100}, .interval = Seconds{0.5}});
  ASSERT_TRUE(log) << to_string(log.error());
  ASSERT_EQ(log->size(), 2u);
  EXPECT_EQ((*log)[1].at, Seconds{100.5});
  EXPECT_EQ((*log)[0].gpus[0].instances[0].gi_id, 7);
  EXPECT_EQ((*log)[0].gpus[0].instances[0].activity.graphics_engine, 0.25);
  EXPECT_EQ((*log)[0].gpus[0].energy, Joules{1});
  EXPECT_EQ((*log)[0].gpus[1].activity.sm, 0.4);
  EXPECT_EQ((*log)[1].gpus[0].power, Watts{61});
  const auto commas = read_dcgm_dmon("#Entity,POWER\nGPU 0,60.5\nGPU 0,61\n", "d", {});
  ASSERT_TRUE(commas) << to_string(commas.error());
  EXPECT_EQ(commas->size(), 2u);
}

TEST(Dcgm, RefusesWithTheLine) {
  const auto text = [](const std::string& line) {
    const auto log = read_dcgm_text("# a\n" + line, "f", Seconds{0});
    return log ? "read" : to_string(log.error());
  };
  const std::string power = "DCGM_FI_DEV_POWER_USAGE";
  EXPECT_EQ(text(power + "{gpu=\"0\"} -5"), "f:2: -5 is negative");
  EXPECT_EQ(text(power + "{gpu=\"0\"} watts"), "f:2: 'watts' is no number");
  EXPECT_EQ(text(power + "{UUID=\"GPU-1\"} 5"), "f:2: there is no label 'gpu'");
  EXPECT_EQ(text(power + "{gpu=\"x\"} 5"), "f:2: 'gpu' is no index");
  EXPECT_EQ(text(power + "{gpu=\"0} 5"), "f:2: labels are not key=\"value\" pairs");
  EXPECT_EQ(text(power + " 5"), "f:2: a metric needs labels in braces");
  EXPECT_EQ(text("# nothing"), "f: no value of a GPU");
  EXPECT_NE(text(power + "{gpu=\"0\"} 60000").find("another unit?"), std::string::npos);
  const auto rows = [](const std::string& lines) {
    const auto log = read_dcgm_dmon(lines, "d", {});
    return log ? "read" : to_string(log.error());
  };
  EXPECT_EQ(rows("GPU 0 1\n"), "d:1: a row before the header '#Entity ...'");
  EXPECT_EQ(rows("#Entity POWER\nGPU 0 1 2\n"), "d:2: 2 values, the header has 1 columns");
  EXPECT_EQ(rows("#Entity POWER\nGPU-I 0 1\n"), "d:2: an instance before its GPU");
  EXPECT_EQ(rows("#Entity POWER\nGPU x 1\n"), "d:2: 'x' is no index");
}

}  // namespace
}  // namespace partita::telemetry
