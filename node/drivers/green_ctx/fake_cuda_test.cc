// The fake libcuda refuses what a real one refuses: what the driver's tests rely on.
#include <gtest/gtest.h>

#include "drivers/green_ctx/probe_ptx.h"
#include "drivers/green_ctx/testing/fake_world.h"

namespace partita::drivers::green_ctx {
namespace {

using abi::Return;

class FakeCuda : public testing::Test {
 protected:
  FakeCuda()
      : gpu(*PrimaryContext::open(*CudaLibrary::open(PARTITA_FAKE_CUDA), "0")), current(*gpu) {
    EXPECT_EQ(api().device_resource(0, &all, 1), Return::success);
  }
  const CudaApi& api() const { return gpu->api(); }
  std::vector<abi::Resource> split(unsigned count, unsigned least, unsigned flags = 0) {
    std::vector<abi::Resource> groups(count);
    EXPECT_EQ(api().split(groups.data(), &count, &all, &rest, flags, least), Return::success);
    groups.resize(count);
    return groups;
  }
  Return describe(std::vector<abi::Resource> resources) {
    return api().describe(&description, resources.data(), static_cast<unsigned>(resources.size()));
  }
  abi::GreenContext green(const abi::Resource& group) {
    abi::GreenContext made = nullptr;
    EXPECT_EQ(describe({group}), Return::success);
    EXPECT_EQ(api().create_green(&made, description, 0, 1), Return::success);
    return made;
  }

  const FakeWorld world;
  const std::shared_ptr<const PrimaryContext> gpu;
  const Current current;
  abi::Resource all = {}, rest = {};
  abi::ResourceDesc description = nullptr;
};

TEST_F(FakeCuda, SplitsByTheRulesOfHopper) {
  const auto sizes = [&](unsigned count, unsigned least, unsigned flags) {
    const auto groups = split(count, least, flags);
    return std::pair(groups.size(), groups.front().sm.count);
  };
  // NVIDIA's own examples for 132 SMs, and the two splits that the driver asks for.
  EXPECT_EQ(sizes(6, 11, 0), std::pair(std::size_t{6}, 16u));
  EXPECT_EQ(sizes(6, 11, 1), std::pair(std::size_t{6}, 12u));
  EXPECT_EQ(sizes(2, 1, 0), std::pair(std::size_t{2}, 8u));
  EXPECT_EQ(sizes(2, 72, 0), std::pair(std::size_t{1}, 72u));
  EXPECT_EQ(sizes(66, 2, 1), std::pair(std::size_t{66}, 2u));
  EXPECT_EQ(sizes(16, 8, 0), std::pair(std::size_t{16}, 8u));
  EXPECT_EQ(rest.sm.count, 4u);
  unsigned count = 0;
  EXPECT_EQ(api().split(nullptr, &count, &all, nullptr, 0, 8), Return::success);
  EXPECT_EQ(count, 16u);
  EXPECT_EQ(api().split(nullptr, &count, &all, nullptr, 0, 133), Return::invalid_value);
  EXPECT_EQ(api().split(nullptr, &count, &all, nullptr, 4, 8), Return::invalid_value);
}

TEST_F(FakeCuda, CombinesOnlyGroupsOfOneSplit) {
  const auto first = split(16, 8), second = split(16, 8);
  EXPECT_EQ(describe({first[0], first[7], rest}), Return::invalid_resource_configuration);
  EXPECT_EQ(describe({second[0], second[7], rest}), Return::success);
  EXPECT_EQ(describe({first[0], second[1]}), Return::invalid_resource_configuration);
  EXPECT_EQ(describe({first[3], first[3]}), Return::invalid_resource_configuration);
  EXPECT_EQ(describe({}), Return::invalid_value);
  abi::Resource changed = first[0];
  changed.sm.count = 16;
  EXPECT_EQ(describe({changed}), Return::invalid_resource_type);
  EXPECT_EQ(describe({abi::Resource{}}), Return::invalid_resource_type);
  unsigned count = 1;
  abi::Resource again = {};
  EXPECT_EQ(api().split(&again, &count, first.data(), nullptr, 0, 8),
            Return::invalid_resource_configuration);
}

TEST_F(FakeCuda, FlagsAndHandlesAreChecked) {
  const auto groups = split(2, 8);
  abi::GreenContext made = nullptr;
  ASSERT_EQ(describe({groups[0]}), Return::success);
  EXPECT_EQ(api().create_green(&made, description, 0, 0), Return::invalid_value);
  EXPECT_EQ(api().create_green(&made, description, 1, 1), Return::invalid_device);
  EXPECT_EQ(api().create_green(&made, nullptr, 0, 1), Return::invalid_value);
  made = green(groups[0]);
  abi::Stream stream = nullptr;
  EXPECT_EQ(api().create_green_stream(&stream, made, 0, 0), Return::invalid_value);
  ASSERT_EQ(api().create_green_stream(&stream, made, 1, 0), Return::success);
  EXPECT_EQ(api().query_stream(nullptr), Return::invalid_handle);
  EXPECT_EQ(api().destroy_green(made), Return::success);
  EXPECT_EQ(api().destroy_green(made), Return::context_is_destroyed);
  EXPECT_EQ(api().query_stream(stream), Return::context_is_destroyed);
  EXPECT_EQ(api().destroy_stream(stream), Return::context_is_destroyed);
  EXPECT_EQ(world.live().streams, 1);  // it leaks, as the real one does
}

TEST_F(FakeCuda, KernelsAreChecked) {
  abi::Library library = nullptr;
  abi::Kernel kernel = nullptr;
  abi::Stream stream = nullptr;
  EXPECT_EQ(api().load_library(&library, "nothing", nullptr, nullptr, 0, nullptr, nullptr, 0),
            Return::invalid_image);
  ASSERT_EQ(api().load_library(&library, kProbePtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            Return::success);
  EXPECT_EQ(api().library_kernel(&kernel, library, "other"), Return::not_found);
  ASSERT_EQ(api().library_kernel(&kernel, library, "partita_computing"), Return::success);
  ASSERT_EQ(api().create_stream(&stream, 1), Return::success);
  std::uint64_t rounds = 1, sink = 0;
  void* arguments[] = {&rounds, &sink};
  const auto launch = [&](unsigned grid, unsigned block, void** given) {
    return api().launch(reinterpret_cast<abi::Function>(kernel), grid, 1, 1, block, 1, 1, 0, stream,
                        given, nullptr);
  };
  EXPECT_EQ(launch(1, 32, arguments), Return::success);
  EXPECT_EQ(launch(0, 32, arguments), Return::invalid_value);
  EXPECT_EQ(launch(1, 1025, arguments), Return::invalid_value);
  EXPECT_EQ(launch(1, 32, nullptr), Return::invalid_value);
  EXPECT_EQ(api().unload_library(library), Return::success);
  EXPECT_EQ(launch(1, 32, arguments), Return::invalid_value);
  EXPECT_EQ(api().destroy_stream(stream), Return::success);
}

TEST_F(FakeCuda, NothingWithoutACurrentContext) {
  abi::Context popped = nullptr;
  abi::Event event = nullptr;
  ASSERT_EQ(api().pop_context(&popped), Return::success);
  EXPECT_EQ(api().create_event(&event, 2), Return::invalid_context);
  EXPECT_EQ(api().pop_context(&popped), Return::invalid_context);
  ASSERT_EQ(api().push_context(gpu->context()), Return::success);
  EXPECT_EQ(api().create_event(&event, 2), Return::success);
  EXPECT_EQ(api().destroy_event(event), Return::success);
  EXPECT_EQ(api().query_event(event), Return::invalid_handle);
}

}  // namespace
}  // namespace partita::drivers::green_ctx
