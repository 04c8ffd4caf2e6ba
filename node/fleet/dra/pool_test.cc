#include "fleet/dra/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/document.h"
#include "base/rng.h"
#include "fleet/dra/resource_slices.h"
#include "hw/catalogue.h"

namespace partita::dra {
namespace {

// What Kubernetes' scheduler knows: a device fits while every counter that it takes is there.
class Allocator {
 public:
  explicit Allocator(const Pool& pool) : pool_(pool), left_(pool.counters) {}
  bool fits(const PoolDevice& device) const {
    return std::ranges::all_of(device.takes, [&](const auto& take) {
      const auto has = left_[device.gpu].find(take.first);
      return has != left_[device.gpu].end() && has->second >= take.second;
    });
  }
  void take(const PoolDevice& device) {
    for (const auto& [name, count] : device.takes) left_[device.gpu][name] -= count;
  }

 private:
  const Pool& pool_;
  std::vector<Counters> left_;
};

std::shared_ptr<const hw::GpuModel> shared(const hw::GpuModel& model) {
  return {std::shared_ptr<void>(), &model};
}

PoolGpu gpu_of(const hw::GpuModel& model, int index) {
  PoolGpu gpu{{}, shared(model)};
  gpu.gpu.index = index;
  gpu.gpu.uuid = "GPU-" + std::to_string(index);
  return gpu;
}

device::Instance instance_of(const hw::GpuModel& model, const hw::PlacedProfile& place) {
  const hw::MigProfile& profile = model.profiles[static_cast<std::size_t>(place.profile)];
  device::Instance one;
  one.profile = profile.name;
  one.gpcs = profile.gpcs;
  one.start = place.start;
  one.size = profile.size;
  return one;
}

std::vector<const hw::GpuModel*> cut_models(const hw::Catalogue& catalogue) {
  std::vector<const hw::GpuModel*> all;
  for (const hw::GpuModel& model : catalogue.gpus)
    if (!model.profiles.empty()) all.push_back(&model);
  return all;
}

// Of every model: instances of others first, then claims at random, and for every device the
// counters say what the layout rules say.
TEST(DraPool, CountersAreTheRulesOfLayouts) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  Rng rng(7);
  for (const hw::GpuModel* model : cut_models(catalogue)) {
    for (int round = 0; round < 40; ++round) {
      PoolGpu gpu = gpu_of(*model, 0);
      std::vector<hw::PlacedProfile> there;
      const Pool empty = pool_of({gpu});
      for (int tries = 0; tries < round % 4; ++tries) {
        const PoolDevice& device = empty.devices[rng.below(empty.devices.size())];
        there.push_back(device.place);
        if (!hw::conflicts(*model, there).empty())
          there.pop_back();
        else
          gpu.gpu.instances.push_back(instance_of(*model, device.place));
      }
      const Pool pool = pool_of({gpu});
      Allocator allocator(pool);
      for (int step = 0; step < 12; ++step) {
        for (const PoolDevice& device : pool.devices) {
          std::vector<hw::PlacedProfile> with = there;
          with.push_back(device.place);
          ASSERT_EQ(allocator.fits(device), hw::conflicts(*model, with).empty())
              << model->name << " " << device.name << ", round " << round;
        }
        const PoolDevice& device = pool.devices[rng.below(pool.devices.size())];
        if (!allocator.fits(device)) continue;
        allocator.take(device);
        there.push_back(device.place);
      }
    }
  }
}

TEST(DraPool, KeepsKubernetesLimits) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  for (const hw::GpuModel* model : cut_models(catalogue)) {
    std::vector<PoolGpu> gpus;
    for (int i = 0; i < 16; ++i) gpus.push_back(gpu_of(*model, i));
    const Pool pool = pool_of(gpus);
    std::set<std::string> names;
    for (const PoolDevice& device : pool.devices) {
      EXPECT_TRUE(names.insert(device.name).second) << device.name;
      EXPECT_LE(device.name.size(), 63u);
      EXPECT_TRUE(std::ranges::all_of(device.name, [](char c) {
        return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
      })) << device.name;
    }
    for (const Counters& counters : pool.counters) EXPECT_LE(counters.size(), kMaxCounters);
    std::size_t devices = 0, sets = 0;
    const std::vector<ResourceSlice> slices = slices_of(pool, "node-1");
    for (const ResourceSlice& slice : slices) {
      EXPECT_LE(slice.devices.size(), kMaxDevicesOfSlice);
      EXPECT_LE(slice.counters.size(), kMaxSetsOfSlice);
      EXPECT_NE(slice.devices.empty(), slice.counters.empty());  // never both
      devices += slice.devices.size();
      sets += slice.counters.size();
    }
    EXPECT_EQ(devices, pool.devices.size());
    EXPECT_EQ(sets, gpus.size());
    EXPECT_TRUE(std::ranges::is_sorted(slices, {}, &ResourceSlice::name));
  }
}

// The scheduler's first choice leaves as much room as any other would have.
TEST(DraPool, TheFirstThatFitsKeepsTheLargestShapes) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  const hw::GpuModel& model = *catalogue.find("A100-80GB");
  Rng rng(11);
  for (int round = 0; round < 30; ++round) {
    std::vector<PoolGpu> gpus = {gpu_of(model, 0), gpu_of(model, 1)};
    for (int claims = 0; claims < 8; ++claims) {
      const Pool pool = pool_of(gpus);
      Allocator allocator(pool);
      for (std::size_t g = 0; g < gpus.size(); ++g)
        for (const hw::PlacedProfile& place : gpus[g].claimed)
          allocator.take(*std::ranges::find_if(pool.devices, [&](const PoolDevice& device) {
            return device.gpu == g && device.place == place;
          }));
      const int profile = static_cast<int>(rng.below(model.profiles.size()));
      std::optional<std::vector<hw::Shape>> first, best;
      const PoolDevice* chosen = nullptr;
      for (const PoolDevice& device : pool.devices) {
        if (device.place.profile != profile || !allocator.fits(device)) continue;
        std::vector<hw::Shape> shapes;
        for (std::size_t g = 0; g < gpus.size(); ++g) {
          hw::Room room{&model, gpus[g].claimed};
          if (g == device.gpu) room.placed.push_back(device.place);
          for (const hw::Shape& shape : hw::largest_shapes(room)) shapes.push_back(shape);
        }
        std::ranges::sort(shapes, std::greater{});
        if (!first) {
          first = shapes;
          chosen = &device;
        }
        if (!best || shapes > *best) best = shapes;
      }
      if (chosen == nullptr) continue;
      EXPECT_EQ(*first, *best) << "round " << round;
      gpus[chosen->gpu].claimed.push_back(chosen->place);
    }
  }
}

TEST(DraPool, SlicesSayItInTheServersWords) {
  const hw::GpuModel& model = *hw::builtin_catalogue().find("A100-80GB");
  const Pool pool = pool_of({gpu_of(model, 3)});
  const std::vector<ResourceSlice> slices = slices_of(pool, "n1");
  const auto object = parse_document(
      "slice", slice_json(pool, slices[1], {slices[1].name, "77", 4}, {"n1", 5, slices.size()}));
  ASSERT_TRUE(object) << to_string(object.error());
  const Node& root = object->root;
  EXPECT_EQ(root.find("apiVersion")->text, "resource.k8s.io/v1");
  EXPECT_EQ(root.find("metadata")->find("resourceVersion")->text, "77");
  const Node& spec = *root.find("spec");
  EXPECT_EQ(spec.find("pool")->find("generation")->number, 5);
  EXPECT_EQ(spec.find("pool")->find("resourceSliceCount")->number,
            static_cast<double>(slices.size()));
  const Node& device = spec.find("devices")->items.front();
  const PoolDevice* const meant = find_device(pool, device.find("name")->text);
  ASSERT_NE(meant, nullptr);
  EXPECT_EQ(device.find("attributes")->find("start")->find("int")->number, meant->place.start);
  const Node& takes = device.find("consumesCounters")->items.front();
  EXPECT_EQ(takes.find("counterSet")->text, "gpu-3");
  EXPECT_EQ(takes.find("counters")->members.size(), meant->takes.size());

  const auto heads = parse_slices(
      "slice", slice_json(pool, slices[0], {slices[0].name, "9", 0}, {"n1", 8, 2}), "n1");
  ASSERT_TRUE(heads);
  ASSERT_EQ(heads->size(), 1u);
  EXPECT_EQ(heads->front().resource_version, "9");
  EXPECT_EQ(heads->front().generation, 8);
  EXPECT_TRUE(parse_slices("slice", slice_json(pool, slices[0], {slices[0].name}, {"n2", 8, 2}),
                           "n1")
                  ->empty());  // another node's
}

}  // namespace
}  // namespace partita::dra
