// Calls of NVIDIA's libraries through simulated ones, which write down what they were given.
#include "server/cuda/vendor_libraries.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>

#include "server/testing/wire_bytes.h"

namespace partita::remote::cuda {
namespace {

using server::CallWork;
using server::LibraryAnswer;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

using Wire = server::WireBytes;

class VendorLibrariesTest : public ::testing::Test {
 protected:
  LibraryAnswer call(const char* function, const Wire& wire) {
    const CallWork work{server::library_function(function), wire.bytes};
    EXPECT_NE(work.function, nullptr) << function;
    const auto answer = libraries.call(work, reinterpret_cast<abi::Stream>(stream));
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().reason);
    return answer ? *answer : LibraryAnswer{.status = -1};
  }
  template <class T>
  static T number(const LibraryAnswer& answer, std::size_t at = 0) {
    T value{};
    EXPECT_GE(answer.results.size(), at + sizeof(T));
    if (answer.results.size() >= at + sizeof(T))
      std::memcpy(&value, answer.results.data() + at, sizeof(T));
    return value;
  }
  // A descriptor with one attribute of numbers, or of others by number.
  LibraryAnswer finalize(int type, int name, std::uint32_t sort, std::int64_t value) {
    return call("cudnnBackendFinalize", Wire(type, 1U, name, sort, std::int64_t{1}, value));
  }

  VendorLibraries libraries;
  std::uintptr_t stream = 42;
  std::vector<double> memory = std::vector<double>(64);
  std::uint64_t at(std::size_t place) { return std::bit_cast<std::uint64_t>(&memory[place]); }
};
constexpr std::uint32_t kInteger = 3, kDescriptor = 15;

TEST_F(VendorLibrariesTest, SizesAreAnswered) {
  const LibraryAnswer answer = call("cusolverDnSgetrf_bufferSize", Wire(3, 4, std::uint64_t{0}, 5));
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(number<int>(answer), 30405);
  EXPECT_EQ(number<std::uint64_t>(call("cudnnGetVersion", Wire())), 0x1'0000'91900U);
}

TEST_F(VendorLibrariesTest, EveryArgumentArrives) {
  int info = 0;
  const auto info_at = std::bit_cast<std::uint64_t>(&info);
  const LibraryAnswer answer = call(
      "cusolverDnDgesvdj",
      Wire(1, 2, 3, 4, at(0), 5, at(6), at(7), 8, at(9), 10, at(11), 12, info_at, 0.25, 13, -1));
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(info, -3);
  memory.resize(16);
  // With the usual order, as none was said.
  EXPECT_THAT(memory, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0.25, 13, 1, 42));
}

TEST_F(VendorLibrariesTest, WorkAreasOfTheHostAreMade) {
  int info = 0;
  EXPECT_EQ(
      call("cusolverDnXpotrf",
           Wire(1, std::int64_t{2}, 3, at(0), std::int64_t{4}, 5, std::uint64_t{0},
                std::uint64_t{6}, std::uint64_t{100'000}, std::bit_cast<std::uint64_t>(&info)))
          .status,
      0);
  EXPECT_EQ(info, 4);
  memory.resize(8);
  EXPECT_THAT(memory, ElementsAre(1, 2, 3, 4, 5, 6, 100'000, 1));
  constexpr int kNoMemory = 2;
  EXPECT_EQ(call("cusolverDnXpotrf", Wire(1, std::int64_t{2}, 3, at(0), std::int64_t{4}, 5,
                                          std::uint64_t{0}, std::uint64_t{6}, ~std::uint64_t{0},
                                          std::bit_cast<std::uint64_t>(&info)))
                .status,
            kNoMemory);
}

TEST_F(VendorLibrariesTest, FactorsAreOfUpToSixteenBytes) {
  memory = {1, 2, 3, 4};
  EXPECT_EQ(call("cublasZscal_v2", Wire(2, 0.0, 1.0, at(0), 1)).status, 0);
  EXPECT_THAT(memory, ElementsAre(-2, 1, -4, 3));
}

TEST_F(VendorLibrariesTest, TensorsActivationsAndFloatingNumbersArrive) {
  const Wire tensor(4U, 9, 2, 3, 4, 5, 60, 20, 5, 1), none(0U), activation(1U, 1, 0, 0.5);
  Wire wire(1, 2, 3.0F, 0.0F, 0.0, 4.0F, 0.0F, 0.0);
  const auto put = [&wire](const Wire& more) {
    wire.bytes.insert(wire.bytes.end(), more.bytes.begin(), more.bytes.end());
  };
  memory[20] = 17;
  put(tensor), wire.add(at(20));
  put(none), wire.add(std::uint64_t{0});
  put(tensor), wire.add(at(0));
  put(tensor), wire.add(at(30)), wire.add(at(31));
  wire.add(0.125), wire.add(at(32)), wire.add(at(33)), wire.add(1e-5);
  wire.add(at(34)), wire.add(at(35));
  put(activation), wire.add(std::uint64_t{0}), wire.add(std::uint64_t{1000});
  wire.add(std::uint64_t{0}), wire.add(std::uint64_t{2000});
  EXPECT_EQ(call("cudnnBatchNormalizationForwardTrainingEx", wire).status, 0);
  memory.resize(16);
  EXPECT_THAT(memory, ElementsAreArray({1.0, 2.0, 3.0, 4.0, 9.0, 4.0, 5.0, 60.0, 17.0, 2.0, 3.0,
                                        0.125, 1e-5, 0.5, 1000.0, 2000.0}));
}

TEST_F(VendorLibrariesTest, WhatTheLibraryRefusesIsItsStatus) {
  EXPECT_EQ(call("cusolverDnSsyevd", Wire(0, 0, 1, at(0), 1, at(0), at(0), 1, at(0))).status, 6);
  const CallWork absent{server::library_function("cusolverDnSpotrf"),
                        Wire(0, 1, at(0), 1, at(0), 1, at(0)).bytes};
  const auto answer = libraries.call(absent, nullptr);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().status, server::kNotSupported);
  EXPECT_THAT(answer.error().reason, ::testing::HasSubstr("cusolverDnSpotrf"));
}

TEST_F(VendorLibrariesTest, AGraphIsDescribedPlannedAndRun) {
  const LibraryAnswer tensor = finalize(17, 900, kInteger, 5);
  ASSERT_EQ(tensor.status, 0);
  const auto inner = number<std::int64_t>(tensor);
  // The library's handle travels as nothing; the other descriptor by its number.
  const LibraryAnswer plan =
      call("cudnnBackendFinalize",
           Wire(5, 3U, 400, 0U, std::int64_t{1}, 401, kDescriptor, std::int64_t{1}, inner, 500,
                kInteger, std::int64_t{1}, std::int64_t{3}));
  ASSERT_EQ(plan.status, 0);
  memory[0] = 7;
  const auto run = [&](std::uint64_t number) {
    return call("cudnnBackendExecute",
                Wire(number, 3U, std::int64_t{10}, 0U, at(0), std::int64_t{11}, 0U, at(1),
                     std::int64_t{12}, 1U, std::bit_cast<std::uint64_t>(0.5), at(2)))
        .status;
  };
  EXPECT_EQ(run(number<std::uint64_t>(plan)), 0);
  EXPECT_EQ(memory[1], 21.5);
  EXPECT_EQ(memory[2], -1);
  EXPECT_NE(run(99), 0);
  EXPECT_EQ(call("cudnnBackendDestroyDescriptor", Wire(number<std::uint64_t>(plan))).status, 0);
  EXPECT_NE(run(number<std::uint64_t>(plan)), 0);
}

TEST_F(VendorLibrariesTest, AttributesAndNewDescriptorsComeBack) {
  const auto heuristics = number<std::uint64_t>(finalize(4, 300, kInteger, 5));
  const auto get = [&](std::uint32_t sort, std::int64_t room) {
    return call("cudnnBackendGetAttribute", Wire(heuristics, 300, sort, room, 3));
  };
  EXPECT_EQ(number<std::int64_t>(get(kInteger, 1)), 1);
  EXPECT_EQ(number<std::int64_t>(get(kInteger, 1), 8), 5);
  const LibraryAnswer count = get(kDescriptor, 0);
  EXPECT_EQ(number<std::int64_t>(count), 5);
  EXPECT_EQ(count.results.size(), 8U);
  const LibraryAnswer some = get(kDescriptor, 3);
  ASSERT_EQ(some.results.size(), 8U + 3 * 8);
  const auto third = number<std::uint64_t>(some, 8 + 16);
  const LibraryAnswer place =
      call("cudnnBackendGetAttribute", Wire(third, 300, kInteger, std::int64_t{1}, 0));
  EXPECT_EQ(number<std::int64_t>(place, 8), 2);
  // Fewer than there is room for.
  EXPECT_EQ(get(kDescriptor, 9).results.size(), 8U + 5 * 8);
}

TEST_F(VendorLibrariesTest, HostileDescriptorsAreRefused) {
  EXPECT_NE(finalize(17, 1, kDescriptor, 12345).status, 0) << "of a number that is none";
  EXPECT_NE(finalize(17, 1, 6, 12345).status, 0) << "an address";
  EXPECT_NE(finalize(17, 666, kInteger, 1).status, 0) << "that cuDNN refuses";
  EXPECT_NE(call("cudnnBackendFinalize", Wire(17, 3U, 1)).status, 0) << "cut";
  EXPECT_NE(call("cudnnBackendFinalize", Wire(17, 1U, 1, kInteger, std::int64_t{-1})).status, 0);
  EXPECT_NE(call("cudnnBackendFinalize", Wire(17, 1U, 1, kInteger, std::int64_t{1} << 61)).status,
            0);
  const auto number_of_one = number<std::uint64_t>(finalize(17, 1, kInteger, 1));
  EXPECT_NE(
      call("cudnnBackendGetAttribute", Wire(number_of_one, 1, kInteger, std::int64_t{1} << 60, 0))
          .status,
      0);
  EXPECT_NE(call("cudnnBackendGetAttribute", Wire(std::uint64_t{77}, 1, kInteger)).status, 0);
}

}  // namespace
}  // namespace partita::remote::cuda
