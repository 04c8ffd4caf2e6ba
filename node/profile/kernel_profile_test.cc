#include "profile/kernel_profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/source_text.h"
#include "profile/csv.h"

namespace partita::profile {
namespace {

using testing::ElementsAre;

TEST(KernelCsv, FillsWhatWasNotMeasured) {
  const auto model = parse_kernel_csv("a.csv",
                                      "kernel,units,time_us,index\n"
                                      "gemm,5,10,1\ngemm,2,20,1\nrelu,3,6,0\n",
                                      5);
  ASSERT_TRUE(model) << to_string(model.error());
  ASSERT_EQ(model->kernels.size(), 2u);
  EXPECT_EQ(model->kernels[0].name, "relu");
  EXPECT_THAT(model->kernels[0].time_us, ElementsAre(18, 9, 6, 6, 6));
  EXPECT_THAT(model->kernels[1].time_us, ElementsAre(40, 20, 20, 20, 10));
  EXPECT_EQ(model->time_us(2), 29);
}

TEST(KernelCsv, SaysTheHostsTimeAndWhatNeighboursDo) {
  const auto model = parse_kernel_csv("a.csv",
                                      "kernel,units,time_us,gap_us,beside,presses\n"
                                      "gemm,2,20,,,\ngemm,4,10,300,,\ngemm,1,30,200,,\n"
                                      "gemm,2,24,350,computing,\ngemm,2,30,,reading,0.5\n"
                                      "relu,4,1,,,\n",
                                      4);
  ASSERT_TRUE(model) << to_string(model.error());
  const KernelProfile& gemm = model->kernels[0];
  EXPECT_EQ(gemm.gap_us, 300);  // on the most units
  EXPECT_THAT(gemm.time_us, ElementsAre(30, 20, 20, 10));
  EXPECT_THAT(gemm.beside, ElementsAre(BesideTime{2, Neighbour::computing, 24, 350, 0},
                                       BesideTime{2, Neighbour::reading, 30, {}, 0.5}));
  EXPECT_EQ(model->kernels[1].gap_us, 0);
  EXPECT_TRUE(model->kernels[1].beside.empty());
}

TEST(KernelCsv, RefusesNeighboursThatCannotBe) {
  const auto refusal = [](const std::string& rows) {
    const auto model = parse_kernel_csv(
        "a.csv", "kernel,units,time_us,gap_us,beside,presses\na,4,1,,,\n" + rows, 4);
    return model ? std::string("accepted") : to_string(model.error());
  };
  EXPECT_EQ(refusal("a,2,1,0,reading,1\n"), "accepted");
  for (const char* row :
       {"a,2,1,0,writing,1\n", "a,4,1,0,reading,1\n", "a,2,1,0,reading,1.5\n",
        "a,2,1,0,computing,0.5\n", "a,2,1,0,,0.5\n", "a,2,1,-1,,\n", "b,2,1,0,reading,1\n"})
    EXPECT_THAT(refusal(row), testing::StartsWith("a.csv:3")) << row;
  EXPECT_THAT(refusal("a,2,1,,reading,1\na,2,2,,reading,1\n"), testing::StartsWith("a.csv:4"));
}

TEST(KernelCsv, RefusesWithTheLine) {
  const auto refusal = [](const std::string& rows) {
    const auto model = parse_kernel_csv("a.csv", "kernel,units,time_us,index\n" + rows, 4);
    return model ? std::string("accepted") : to_string(model.error());
  };
  EXPECT_THAT(refusal("a,5,1,0\n"), testing::StartsWith("a.csv:2"));
  EXPECT_THAT(refusal("a,1,0,0\n"), testing::StartsWith("a.csv:2"));
  EXPECT_THAT(refusal("a,1,1,0\nb,1,2,0\n"), testing::StartsWith("a.csv:3"));
  EXPECT_THAT(refusal(",1,1,0\n"), testing::StartsWith("a.csv:2"));
  EXPECT_THAT(refusal("a,3,1,0\nb,2,1,1\n"),
              testing::StartsWith("a.csv: no time on all 4 units of the GPU, only on up to 3"));
  const auto twice = parse_kernel_csv("a.csv", "kernel,units,time_us\na,4,1\na,4,2\n", 4);
  ASSERT_FALSE(twice) << "two launches of it?";
  EXPECT_THAT(to_string(twice.error()), testing::StartsWith("a.csv:3"));
}

// As sessions append what they measured.
TEST(KernelCsv, WhatIsMeasuredAgainCountsByItsMedian) {
  const auto model = parse_kernel_csv("a.csv",
                                      "index,kernel,units,time_us,gap_us,beside,presses\n"
                                      "0,a,4,10,5,,\n1,a,4,2,,,\n0,a,4,30,,,\n1,a,4,2,,,\n"
                                      "0,a,4,12,7,,\n1,a,2,3,,reading,0.2\n0,a,2,20,,,\n"
                                      "1,a,2,9,4,reading,1\n1,a,2,5,,reading,0.5\n",
                                      4);
  ASSERT_TRUE(model) << to_string(model.error());
  ASSERT_EQ(model->kernels.size(), 2u);
  EXPECT_THAT(model->kernels[0].time_us, ElementsAre(40, 20, 20, 12));
  EXPECT_EQ(model->kernels[0].gap_us, 7);
  EXPECT_THAT(model->kernels[1].beside, ElementsAre(BesideTime{2, Neighbour::reading, 5, 4, 0.5}));
}

TEST(Reef, CountsWaves) {
  // 10 work-groups, 3 at once on a unit: on 1 unit three waves of 9 us and one group, 4 us; on 2
  // units 5 per unit, so 9 + 6; on 4 units 3 per unit.
  const ReefFiles files{"s.json",
                        R"({"kernels": [{"name": "k", "launch_params": [5, 2, 1, 64, 1, 1]}]})",
                        "t.json", R"({"kernel_latency": {"k": {"latency": [4, 6, 9]}}})"};
  const auto model = parse_reef(files, "m", 5);
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_THAT(model->kernels.at(0).time_us, ElementsAre(31, 15, 13, 9, 6));
  ReefFiles other = files;
  other.table = R"({"kernel_latency": {"x": {"latency": [4]}}})";
  EXPECT_THAT(to_string(parse_reef(other, "m", 5).error()), testing::StartsWith("t.json"));
  other.sequence = R"({"kernels": [{"name": "k", "launch_params": [5, 2]}]})";
  EXPECT_THAT(to_string(parse_reef(other, "m", 5).error()), testing::StartsWith("s.json:1"));
}

// REEF's pair of files for a model, from the rows of data/published/reef/waves.csv: one launch of
// every kernel.
ReefFiles pair_of(const std::string& model, const Csv& waves) {
  std::string launches, tables;
  for (const CsvRow& row : waves.rows) {
    if (row.cells[0] != model) continue;
    const char* comma = launches.empty() ? "" : ", ";
    launches += fmt::format(R"({}{{"name": "{}", "launch_params": [{}, 1, 1, 64, 1, 1]}})", comma,
                            row.cells[1], row.cells[2]);
    std::string times = row.cells[4];
    std::ranges::replace(times, ' ', ',');
    tables += fmt::format(R"({}"{}": {{"latency": [{}]}})", comma, row.cells[1], times);
  }
  return {"s.json", fmt::format(R"({{"kernels": [{}]}})", launches), "t.json",
          fmt::format(R"({{"kernel_latency": {{{}}}}})", tables)};
}

// What REEF published, read in its form, gives the times that our CSV files of it hold.
TEST(Reef, ThePublishedTablesGiveThePublishedTimes) {
  const std::string folder = "data/published/reef/";
  const Csv waves = *parse_csv("waves.csv", source_text(folder + "waves.csv"));
  const std::map<std::string, std::size_t> launches = {
      {"alexnet", 13},    {"bert", 205},   {"densenet", 207}, {"inception", 146}, {"mobilenet", 31},
      {"resnet152", 207}, {"resnet", 330}, {"resnet18", 57},  {"vgg", 71}};
  std::size_t rows = 0;
  for (const auto& [name, count] : launches) {
    const auto reef = parse_reef(pair_of(name, waves), name, 60);
    ASSERT_TRUE(reef) << to_string(reef.error());
    std::map<std::string, KernelProfile> by_name;
    for (const KernelProfile& kernel : reef->kernels) by_name[kernel.name] = kernel;
    EXPECT_EQ(by_name.size(), reef->kernels.size());
    rows += by_name.size();
    const auto model = parse_kernel_csv(name, source_text(folder + name + ".csv"), 60);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(model->kernels.size(), count) << name;
    for (const KernelProfile& kernel : model->kernels) EXPECT_EQ(kernel, by_name.at(kernel.name));
  }
  EXPECT_EQ(rows, waves.rows.size());
}

}  // namespace
}  // namespace partita::profile
