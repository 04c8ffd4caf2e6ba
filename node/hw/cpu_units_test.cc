// CPUs as a GPU of units: layouts against the closed form, and the name wherever models are known.
#include "hw/cpu_units.h"

#include <gtest/gtest.h>

#include "hw/catalogue.h"
#include "hw/layout.h"

namespace partita::hw {
namespace {

TEST(CpuUnits, AreKnownByName) {
  const Catalogue& catalogue = builtin_catalogue();
  ASSERT_TRUE(catalogue.get("CPU-4"));
  EXPECT_EQ(*catalogue.get("cpu-4"), cpu_units("CPU-4"));
  EXPECT_EQ(catalogue.find("CPU-16")->compute_slices, 16);
  for (const char* name : {"CPU-0", "CPU-17", "CPU-", "CPU", "CPU-4x", "CPU-04 ", "GPU-4"}) {
    EXPECT_EQ(cpu_units(name), nullptr) << name;
  }
}

TEST(CpuUnits, AreCountedBeyondTheModels) {
  EXPECT_EQ(cpu_unit_count("CPU-12"), 12);
  EXPECT_EQ(cpu_unit_count("cpu-96"), 96);
  for (const char* name : {"CPU-0", "CPU-4x", "CPU--4", "CPU-", "4", "CPU-99999999999"})
    EXPECT_EQ(cpu_unit_count(name), 0) << name;
}

TEST(CpuUnits, PartsMayBeCutAnywhere) {
  for (int units = 1; units <= 4; ++units) {
    const GpuModel& model = *cpu_units("CPU-" + std::to_string(units));
    // Ways to write `units` as a sum in order: 2^(units - 1).
    EXPECT_EQ(maximal_layouts(model, plain_profiles(model)).size(), 1U << (units - 1)) << units;
  }
}

TEST(CpuUnits, AreWhatACatalogueFileCouldSay) {
  for (int units = 1; units <= kMaxSlices; ++units) {
    const GpuModel& model = *cpu_units("CPU-" + std::to_string(units));
    const auto again = parse_gpu_model("f.json", gpu_model_json(model));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_TRUE(*again == model) << units;
  }
}

}  // namespace
}  // namespace partita::hw
