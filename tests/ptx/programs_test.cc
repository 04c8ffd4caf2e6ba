// The kernels of tests/remote/programs, from the committed PTX, on the machine with all checks on:
// right beside references of the CPU, and nothing is accused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <regex>
#include <set>

#include "base/rng.h"
#include "base/source_text.h"
#include "ptx/machine.h"

namespace partita::ptx {
namespace {

constexpr std::uint64_t kArena = 16 << 20;
constexpr const char* kFolder = "tests/remote/programs/";

std::string ptx_of(const std::string& program) {
  return source_text(kFolder + std::string("ptx/") + program + ".ptx");
}

// A machine with one program's module.
class Device {
 public:
  explicit Device(const std::string& program) : machine_(*Machine::open(kArena)) {
    const auto module = machine_->load(ptx_of(program), program);
    EXPECT_TRUE(module.has_value()) << to_string(module.error());
    module_ = module.value_or(ModuleId{});
  }

  template <class T>
  std::uint64_t put(const std::vector<T>& values) {
    const std::uint64_t address = make<T>(values.size());
    const auto bytes = machine_->writable(address, values.size() * sizeof(T));
    if (bytes) std::memcpy(bytes->data(), values.data(), bytes->size());
    return address;
  }

  template <class T>
  std::uint64_t make(std::size_t count) {
    return machine_->allocate(count * sizeof(T)).value_or(0);
  }

  template <class T>
  std::vector<T> get(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    const auto bytes = machine_->readable(address, count * sizeof(T));
    EXPECT_TRUE(bytes.has_value());
    if (bytes) std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  }

  struct Shape {
    Extent grid = {}, block = {};
    std::uint32_t shared = 0;
  };

  template <class... Arguments>
  void run(const std::string& kernel, const Shape& shape, Arguments... arguments) {
    const auto id = machine_->find_kernel(module_, kernel);
    ASSERT_TRUE(id.has_value()) << kernel;
    const auto kernels = machine_->kernels(module_);
    const KernelInfo& info = kernels->at(id->index);
    ASSERT_EQ(info.parameters.size(), sizeof...(arguments));
    std::vector<std::byte> block(info.parameter_bytes);
    std::size_t at = 0;
    const auto place = [&](const auto& argument) {
      ASSERT_EQ(info.parameters[at].size, sizeof argument) << kernel << " parameter " << at;
      std::memcpy(block.data() + info.parameters[at++].offset, &argument, sizeof argument);
    };
    (place(arguments), ...);
    const auto run = run_here(*machine_, {.kernel = *id,
                                          .grid = shape.grid,
                                          .block = shape.block,
                                          .dynamic_shared = shape.shared,
                                          .parameters = std::move(block),
                                          .checks = {true, true, true}});
    ASSERT_TRUE(run.has_value()) << to_string(run.error());
    for (const Fault& fault : (*run)->faults()) ADD_FAILURE() << to_text(fault);
    printed = (*run)->printed();
  }

  Machine& machine() { return *machine_; }
  ModuleId module() const { return module_; }
  std::string printed;

 private:
  std::unique_ptr<Machine> machine_;
  ModuleId module_{};
};

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.below(1024)) / 1024.0F;
  return values;
}

std::vector<int> numbers(std::size_t count, std::uint64_t bound, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(rng.below(bound));
  return values;
}

std::vector<std::string> programs() {
  std::vector<std::string> names;
  const auto folder = std::filesystem::path(PARTITA_SOURCE_DIR) / kFolder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".cu") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Programs, EveryKernelOfTheSourcesIsInThePtx) {
  EXPECT_GE(programs().size(), 18U);
  for (const std::string& program : programs()) {
    Device device(program);
    std::set<std::string> want, have;
    const std::string source = source_text(kFolder + program + ".cu");
    const std::regex kernel(R"(\nKERNEL\((\w+),)");
    for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at) {
      want.insert((*at)[1]);
    }
    const auto kernels = device.machine().kernels(device.module());
    for (const KernelInfo& info : *kernels) have.insert(info.name);
    EXPECT_EQ(have, want) << program;
  }
}

TEST(Programs, ParametersLieWhereTheLanguagePutsThem) {
  Device device("launches");
  const auto id = device.machine().find_kernel(device.module(), "launches_mixed");
  ASSERT_TRUE(id.has_value());
  const auto kernels = device.machine().kernels(device.module());
  const KernelInfo& info = kernels->at(id->index);
  // (char, short, double, struct of 336 bytes, float4, unsigned char, long long, double*)
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> want = {
      {0, 1}, {2, 2}, {8, 8}, {16, 328}, {352, 16}, {368, 1}, {376, 8}, {384, 8}};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> have;
  for (const ParameterLayout& one : info.parameters) have.emplace_back(one.offset, one.size);
  EXPECT_EQ(have, want);
  EXPECT_EQ(info.parameter_bytes, 392U);
}

TEST(Programs, Scan) {
  Device device("scan");
  const std::vector<int> values = numbers(500, 100, 1);
  std::vector<int> want(values.size());
  std::exclusive_scan(values.begin(), values.end(), want.begin(), 0);
  const auto from = device.put(values), to = device.make<int>(500), totals = device.make<int>(4);
  device.run("scan_blocks", {{4}, {128}}, from, to, totals, 500);
  const auto offsets = device.make<int>(4);
  device.run("scan_blocks", {{1}, {128}}, totals, offsets, std::uint64_t{0}, 4);
  device.run("scan_add", {{4}, {128}}, to, offsets, 500);
  EXPECT_EQ(device.get<int>(to, 500), want);
}

TEST(Programs, Reduction) {
  Device device("reduction");
  const std::vector<int> values = numbers(700, 1000, 2);
  const std::vector<float> floats = noise(700, 3);
  const auto sums = device.make<int>(3), sum = device.put(std::vector<float>{0});
  device.run("reduction_tree", {{3}, {128}, 512}, device.put(values), sums, 700);
  device.run("reduction_warps", {{2}, {96}}, device.put(floats), sum, 700);
  const std::vector<int> parts = device.get<int>(sums, 3);
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0),
            std::accumulate(values.begin(), values.end(), 0));
  EXPECT_EQ(device.get<float>(sum, 1)[0], std::accumulate(floats.begin(), floats.end(), 0.0F));
}

TEST(Programs, Histogram) {
  Device device("histogram");
  std::vector<unsigned char> data;
  std::vector<int> want(64, 0);
  int high = 0;
  for (const int value : numbers(3000, 256, 4)) {
    data.push_back(static_cast<unsigned char>(value));
    ++want[static_cast<std::size_t>(value / 4)];
    high += value >= 128;
  }
  const auto on_data = device.put(data), bins = device.put(std::vector<int>(64, 0));
  const auto halves = device.put(std::vector<int>(2, 0));
  device.run("histogram_shared", {{3}, {96}}, on_data, bins, 3000);
  device.run("histogram_halves", {{12}, {256}}, on_data, halves, 3000);
  EXPECT_EQ(device.get<int>(bins, 64), want);
  EXPECT_THAT(device.get<int>(halves, 2), testing::ElementsAre(high, high));
}

TEST(Programs, Matmul) {
  Device device("matmul");
  const int rows = 19, inner = 23, columns = 17;
  const std::vector<float> a = noise(19 * 23, 5), b = noise(23 * 17, 6);
  const auto on_a = device.put(a), c = device.make<float>(19 * 17),
             t = device.make<float>(a.size());
  const Device::Shape shape = {{2, 2}, {16, 16}};
  device.run("matmul_float", shape, on_a, device.put(b), c, rows, inner, columns);
  device.run("matmul_transpose", shape, on_a, t, rows, inner);
  const std::vector<float> have = device.get<float>(c, 19 * 17),
                           turned = device.get<float>(t, a.size());
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      float sum = 0;
      for (int k = 0; k < inner; ++k) {
        sum += a[static_cast<std::size_t>(row * inner + k)] *
               b[static_cast<std::size_t>(k * columns + column)];
      }
      EXPECT_EQ(have[static_cast<std::size_t>(row * columns + column)], sum);
    }
    for (int k = 0; k < inner; ++k) {
      EXPECT_EQ(turned[static_cast<std::size_t>(k * rows + row)],
                a[static_cast<std::size_t>(row * inner + k)]);
    }
  }
}

TEST(Programs, Softmax) {
  Device device("softmax");
  const int columns = 70;
  const std::vector<float> values = noise(140, 7);
  const auto to = device.make<float>(140);
  device.run("softmax_rows", {{2}, {64}}, device.put(values), to, columns);
  const std::vector<float> have = device.get<float>(to, 140);
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::size_t at = row * 70; at < row * 70 + 70; ++at) sum += std::exp(double{values[at]});
    for (std::size_t at = row * 70; at < row * 70 + 70; ++at) {
      EXPECT_NEAR(have[at], std::exp(double{values[at]}) / sum, 1e-6);
    }
  }
}

TEST(Programs, PathfinderAgainstAllWays) {
  Device device("pathfinder");
  const int columns = 100, rows = 5;
  const std::vector<int> wall = numbers(500, 10, 8);
  std::vector<int> cost(wall.begin(), wall.begin() + columns);
  const auto from = device.put(cost), to = device.make<int>(100);
  device.run("pathfinder_rows", {{2}, {64}}, device.put(wall), from, to, columns, rows - 1, 1);
  for (int row = 1; row < rows; ++row) {
    const std::vector<int> old = cost;
    for (int x = 0; x < columns; ++x) {
      const auto first = old.begin() + std::max(0, x - 1);
      const auto last = old.begin() + std::min(columns, x + 2);
      cost[static_cast<std::size_t>(x)] =
          *std::min_element(first, last) + wall[static_cast<std::size_t>(row * columns + x)];
    }
  }
  EXPECT_EQ(device.get<int>(to, 100), cost);
}

TEST(Programs, PrintingAndAFailedAssertion) {
  Device device("printing");
  device.run("printing_lines", {{1}, {32}}, 3, 1.25);
  EXPECT_EQ(device.printed,
            "line 0 of 3: 0.00 text a %\nline 1 of 3: 1.25 text b %\nline 2 of 3: 2.50 text c %\n");
}

}  // namespace
}  // namespace partita::ptx
