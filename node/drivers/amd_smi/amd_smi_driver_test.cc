// The AMD driver on a strict simulated library: what it reads, sets and refuses; and reading only
// on AMD's own library where there is one.
#include "drivers/amd_smi/amd_smi_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "device/testing/conformance.h"

namespace partita::drivers::amd_smi {
namespace {

using device::ClockRange;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A variable of the environment while this lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

std::unique_ptr<device::NodeDriver> opened() {
  auto driver = open_amd_smi(hw::builtin_catalogue(), PARTITA_AMD_SMI_FAKE);
  EXPECT_TRUE(driver) << to_string(driver.error());
  return driver ? *std::move(driver) : nullptr;
}

TEST(AmdSmi, ConformsAsFarAsAGpuWithoutMigCan) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  EXPECT_THAT(device::check_reading(*driver, hw::builtin_catalogue()), IsEmpty());
  EXPECT_THAT(device::check_power(*driver, 0), IsEmpty());
  EXPECT_THAT(device::check_power(*driver, 1), IsEmpty());
}

TEST(AmdSmi, GpusAreTheProcessorsThatAreGpus) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  const auto info = driver->info();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->gpus, 2) << "the library lists a network card, too";
  EXPECT_EQ(info->name, "amd");
  EXPECT_EQ(info->version, "amdgpu 6.14.14, amd_smi 26.5.0");
  const auto first = driver->read(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->name, "AMD Instinct MI300X");
  EXPECT_EQ(first->uuid, "GPU-4eff74a1-0000-1000-802d-111111111111");
  EXPECT_EQ(first->pci_device_id, "0x74A11002");
  EXPECT_EQ(first->memory, Mib{192 * 1024.0});
  EXPECT_FALSE(first->mig_capable);
}

TEST(AmdSmi, TellsWhatTheBoardTellsAndNoMore) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  const auto modern = driver->telemetry(0), older = driver->telemetry(1);
  ASSERT_TRUE(modern && older);
  EXPECT_TRUE(modern->power && !modern->power_average) << "an MI300 tells power of the moment";
  EXPECT_GT(*modern->power, Watts{140});
  EXPECT_LE(*modern->power, Watts{750});
  EXPECT_EQ(modern->power_limit, Watts{750});
  EXPECT_EQ(modern->activity.graphics_engine, 0.7);
  EXPECT_EQ(modern->activity.dram, 0.35);
  EXPECT_FALSE(modern->activity.sm) << "nobody tells that";
  EXPECT_EQ(modern->memory_clock, Mhz{1300});
  EXPECT_TRUE(modern->instances.empty());
  EXPECT_FALSE(older->power) << "an MI200 tells a mean";
  EXPECT_EQ(older->power_average, Watts{40});
  EXPECT_EQ(older->sm_clock, Mhz{500});
  EXPECT_EQ(older->temperature, Celsius{43}) << "the hottest spot, not the edge";
  EXPECT_THAT(older->throttle, IsEmpty());
}

TEST(AmdSmi, EnergyIsCounterTimesResolution) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  const auto before = driver->telemetry(1);
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto after = driver->telemetry(1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(before && after && before->energy && after->energy);
  const double joules = (*after->energy - *before->energy).value;
  EXPECT_GE(joules, 40 * 0.05 - 0.01) << "40 W for as long";
  EXPECT_LE(joules, 40 * (took.count() + 0.1));
}

TEST(AmdSmi, CapAndClocksSlowTheBoardDownAndAreTakenAway) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  const auto free = driver->telemetry(0);
  ASSERT_TRUE(driver->set_power_settings(0, {Watts{400}, {}}));
  const auto capped = driver->telemetry(0);
  ASSERT_TRUE(free && capped);
  EXPECT_EQ(capped->power_limit, Watts{400});
  EXPECT_LE(*capped->power, Watts{400});
  EXPECT_LT(*capped->sm_clock, *free->sm_clock);
  EXPECT_THAT(capped->throttle, ElementsAre("sw_power_cap"));
  ASSERT_TRUE(driver->set_power_settings(0, {Watts{750}, ClockRange{Mhz{600}, Mhz{900}}}));
  EXPECT_EQ(driver->telemetry(0)->sm_clock, Mhz{900});
  // A range below the one that is set, and one above it: neither end may pass the other.
  ASSERT_TRUE(driver->set_power_settings(0, {{}, ClockRange{Mhz{200}, Mhz{400}}}));
  EXPECT_EQ(driver->telemetry(0)->sm_clock, Mhz{400});
  ASSERT_TRUE(driver->set_power_settings(0, {{}, ClockRange{Mhz{1500}, Mhz{1500}}}));
  EXPECT_EQ(driver->telemetry(0)->sm_clock, Mhz{1500});
  ASSERT_TRUE(driver->set_power_settings(0, {}));
  EXPECT_EQ(driver->telemetry(0)->sm_clock, free->sm_clock);
  EXPECT_EQ(driver->power_settings(0)->now.limit, Watts{750});
}

TEST(AmdSmi, OffersLevelsOrStepsOfTheRange) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  const auto range = driver->power_settings(0), levels = driver->power_settings(1);
  ASSERT_TRUE(range && levels);
  EXPECT_EQ(range->clocks.front(), Mhz{132}) << "not that of deep sleep";
  EXPECT_EQ(range->clocks[1], Mhz{182});
  EXPECT_EQ(range->clocks.back(), Mhz{2100});
  EXPECT_THAT(levels->clocks, ElementsAre(Mhz{500}, Mhz{800}, Mhz{1200}, Mhz{1700}));
  EXPECT_EQ(range->least_limit, Watts{1}) << "the library tells 0";
  EXPECT_FALSE(range->clocks_told);
}

TEST(AmdSmi, RefusesWhatTheBoardCannot) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  for (const device::PowerSettings& wrong :
       {device::PowerSettings{Watts{751}, {}}, device::PowerSettings{Watts{0.5}, {}},
        device::PowerSettings{{}, ClockRange{Mhz{600}, Mhz{500}}},
        device::PowerSettings{{}, ClockRange{Mhz{600}, Mhz{2200}}},
        device::PowerSettings{{}, ClockRange{Mhz{10}, Mhz{500}}},
        device::PowerSettings{{}, ClockRange{Mhz{NAN}, Mhz{500}}}}) {
    const auto set = driver->set_power_settings(0, wrong);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ErrorCode::invalid_argument) << to_string(set.error());
  }
  EXPECT_EQ(driver->telemetry(2).error().code, ErrorCode::not_found);
  EXPECT_EQ(driver->power_settings(-1).error().code, ErrorCode::not_found);
}

TEST(AmdSmi, HasNoMig) {
  const auto driver = opened();
  ASSERT_TRUE(driver);
  EXPECT_TRUE(driver->profiles(0)->empty());
  const auto refused = driver->create_instance(0, {0, 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("AMD GPUs have no MIG"));
  EXPECT_EQ(driver->set_mig_mode(0, true).error().code, ErrorCode::not_supported);
  EXPECT_EQ(driver->destroy_instance(0, 1).error().code, ErrorCode::not_supported);
  EXPECT_EQ(driver->create_compute(0, 1).error().code, ErrorCode::not_supported);
  EXPECT_EQ(driver->destroy_compute(0, 1, 0).error().code, ErrorCode::not_supported);
  EXPECT_EQ(driver->destroy_compute(7, 1, 0).error().code, ErrorCode::not_found);
}

TEST(AmdSmi, WithoutRightsNothingIsSet) {
  const Environment rights("AMD_SMI_FAKE_RIGHTS", "no");
  const auto driver = opened();
  ASSERT_TRUE(driver);
  for (const device::PowerSettings& settings :
       {device::PowerSettings{Watts{400}, {}}, device::PowerSettings{}}) {
    const auto set = driver->set_power_settings(0, settings);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ErrorCode::denied) << to_string(set.error());
  }
  EXPECT_EQ(driver->power_settings(0)->now.limit, Watts{750});
}

TEST(AmdSmi, TakesVersionsThatItKnowsAlone) {
  for (const char* other : {"25.3.0", "24.7.1", "27.0.0", "0.0.0"}) {
    const Environment version("AMD_SMI_FAKE_VERSION", other);
    const auto driver = open_amd_smi(hw::builtin_catalogue(), PARTITA_AMD_SMI_FAKE);
    ASSERT_FALSE(driver) << other;
    EXPECT_EQ(driver.error().code, ErrorCode::no_driver);
    EXPECT_THAT(to_string(driver.error()), HasSubstr(std::string("this is AMD SMI ") + other));
  }
  const Environment version("AMD_SMI_FAKE_VERSION", "26.1.0");
  EXPECT_TRUE(opened());
  const auto missing = open_amd_smi(hw::builtin_catalogue(), "/nowhere/libamd_smi.so.26");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::no_driver);
  EXPECT_THAT(to_string(missing.error()), HasSubstr("ROCm 7"));
}

// On a machine with AMD GPUs: nothing is changed.
TEST(AmdSmi, RealGpusAreReadAsTheContractSays) {
  const auto driver = open_amd_smi(hw::builtin_catalogue());
  if (!driver) GTEST_SKIP() << to_string(driver.error());
  EXPECT_THAT(device::check_reading(**driver, hw::builtin_catalogue()), IsEmpty());
}

}  // namespace
}  // namespace partita::drivers::amd_smi
