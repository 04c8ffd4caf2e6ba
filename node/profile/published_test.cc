// data/published: every file is read, holds as much as was published, and agrees with itself, with
// the other files and with what physics demands.
#include "profile/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "profile/csv.h"

namespace partita::profile {
namespace {

const std::string kFolder = "data/published/";

Csv table_of(const std::string& name) {
  const Result<Csv> csv = parse_csv(name, source_text(kFolder + name));
  if (!csv) ADD_FAILURE() << to_string(csv.error());
  return csv ? *csv : Csv{};
}

// The cells of a table: its first column names the row.
using Cells = std::map<std::string, std::map<std::string, double>>;

Cells cells_of(const std::string& name) {
  const Csv csv = table_of(name);
  Cells cells;
  for (const CsvRow& row : csv.rows)
    for (int column = 1; column < static_cast<int>(row.cells.size()); ++column) {
      const auto value = csv_number(csv, row, column, {0, 1e9});
      if (!value) ADD_FAILURE() << to_string(value.error());
      const std::string& title = csv.header.cells[static_cast<std::size_t>(column)];
      EXPECT_TRUE(cells[row.cells[0]].emplace(title, value ? *value : 0).second) << csv.at(row);
    }
  return cells;
}

TEST(Published, NoFileIsLeftOut) {
  std::set<std::string> found;
  const std::filesystem::path root = std::filesystem::path(PARTITA_SOURCE_DIR) / kFolder;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".csv") found.insert(entry.path().lexically_relative(root));
  EXPECT_THAT(
      found,
      testing::ElementsAre(
          "accelwattch/pascal-ptx.csv", "accelwattch/pascal-sass.csv", "accelwattch/turing-ptx.csv",
          "accelwattch/turing-sass.csv", "accelwattch/volta-board.csv",
          "accelwattch/volta-counters.csv", "accelwattch/volta-hw.csv",
          "accelwattch/volta-hybrid.csv", "accelwattch/volta-ptx.csv", "accelwattch/volta-sass.csv",
          "azure/llm-2023-code.csv", "azure/llm-2023-conv.csv", "gpuless/calls.csv",
          "gpuless/times.csv", "gpulet/a100-mps.csv", "gpulet/a100-utilisation.csv",
          "igniter/v100-idle.csv", "igniter/v100-models.csv", "llm/measured.csv",
          "parvagpu/a100-80gb.csv", "parvagpu/scenarios.csv", "reef/alexnet.csv", "reef/bert.csv",
          "reef/densenet.csv", "reef/inception.csv", "reef/mobilenet.csv", "reef/resnet.csv",
          "reef/resnet152.csv", "reef/resnet18.csv", "reef/vgg.csv", "reef/waves.csv",
          "rodinia/far-table3.csv", "swim/fb09-0.csv", "swim/fb09-1.csv", "swim/fb10-0.csv"));
}

// Eleven models, six shares, seven batches. Most convolutional models do on all of it what
// ParvaGPU measured on 7 GPCs with one process, within a quarter.
TEST(Published, GpuletsProfilesAreWholeAndAgreeWithParvaGpus) {
  std::map<std::string, std::map<std::pair<int, int>, double>> rate;  // (share, batch)
  const Csv csv = table_of("gpulet/a100-mps.csv");
  for (const CsvRow& row : csv.rows)
    EXPECT_TRUE(rate[row.cells[0]]
                    .emplace(std::pair(std::stoi(row.cells[1]), std::stoi(row.cells[2])),
                             std::stod(row.cells[3]))
                    .second)
        << csv.at(row);
  ASSERT_EQ(rate.size(), 11u);
  int close = 0;
  for (const auto& [model, rates] : rate) {
    EXPECT_EQ(rates.size(), 6u * 7u) << model;
    EXPECT_GT(rates.at({100, 64}), 1.5 * rates.at({20, 64})) << model;
    const ProfilePoint* measured = find_point(published_profiles().at(model), 7, 64, 1);
    ASSERT_TRUE(measured);
    const double ratio = rates.at({100, 64}) / measured->throughput.value;
    if (model != "bert") close += ratio > 0.75 && ratio < 1.25;
  }
  EXPECT_GE(close, 8);
}

TEST(Published, ParvaGpusProfilesAreWholeAndTheirColumnsAgree) {
  // Five sizes, nine batches and one to five processes of eleven models; 728 did not run.
  EXPECT_EQ(table_of("parvagpu/a100-80gb.csv").rows.size(), 11u * 5 * 9 * 5);
  std::size_t points = 0;
  double throughput = 0;
  for (const auto& [model, profile] : published_profiles()) {
    points += profile.points.size();
    for (const ProfilePoint& p : profile.points) {
      throughput += p.throughput.value;
      const double derived_ms = 1000.0 * p.batch * p.processes / p.throughput.value;
      EXPECT_NEAR(p.latency.value, derived_ms, 0.6) << model;  // the column is in whole ms
      EXPECT_EQ(p.latency.value, std::round(p.latency.value)) << model;
    }
  }
  EXPECT_EQ(published_profiles().size(), 11u);
  EXPECT_EQ(points, 1747u);
  EXPECT_NEAR(throughput, 1527913.811, 1e-3);  // added up from the artifact
}

struct PowerTable {
  const char* name;
  std::size_t kernels;
  double error;                    // of the model against the board, mean in %, as published
  double least_apart, most_apart;  // W of the model's sum that no column names
};

constexpr PowerTable kPower[] = {{"volta-sass", 26, 9.2, 0, 0},
                                 {"volta-ptx", 21, 13.7, 0, 0},
                                 {"volta-hw", 25, 7.5, 0, 0},
                                 {"volta-hybrid", 25, 8.2, 0, 0},
                                 {"pascal-sass", 22, 11.0, 0, 0},
                                 {"pascal-ptx", 20, 10.8, 0, 0},
                                 {"turing-sass", 26, 12.9, 22.89, 22.91},
                                 {"turing-ptx", 21, 14.3, 12, 32}};

// As many jobs as SWIM's samples have, over about a day, in order.
TEST(Published, SwimsJobsComeInOrderOverADay) {
  const std::map<std::string, std::size_t> jobs = {
      {"swim/fb09-0.csv", 5894}, {"swim/fb09-1.csv", 6638}, {"swim/fb10-0.csv", 24442}};
  for (const auto& [name, count] : jobs) {
    const Csv csv = table_of(name);
    EXPECT_EQ(csv.rows.size(), count) << name;
    double before = 0;
    for (const CsvRow& row : csv.rows) {
      const auto at = csv_number(csv, row, csv.column("at_s"), {before, 87'000});
      ASSERT_TRUE(at) << to_string(at.error());
      before = *at;
    }
    EXPECT_GT(before, 85'000) << name;
  }
}

TEST(Published, AccelWattchsComponentsAddUpAndMissTheBoardByWhatWasPublished) {
  std::map<std::string, double> board;  // by GPU and kernel: the same in every table
  for (const PowerTable& table : kPower) {
    const std::string name = table.name;
    const Cells cells = cells_of("accelwattch/" + name + ".csv");
    EXPECT_EQ(cells.size(), table.kernels) << name;
    double error = 0;
    for (const auto& [kernel, watts] : cells) {
      double apart = 2 * watts.at("model_w") + watts.at("board_w");
      for (const auto& [column, value] : watts) apart -= value;
      EXPECT_GE(apart, table.least_apart - 1e-6) << name << " " << kernel;
      EXPECT_LE(apart, table.most_apart + 1e-6) << name << " " << kernel;
      for (const char* always : {"static_w", "constant_w", "dram_w", "l2_w", "scheduler_w"})
        EXPECT_GT(watts.at(always), 0) << name << " " << kernel << " " << always;
      EXPECT_GT(watts.at("board_w"), 50);  // the constant and static part alone
      EXPECT_LT(watts.at("board_w"), 260);
      const std::string gpu = name.substr(0, name.find('-'));
      const auto same = board.emplace(gpu + " " + kernel, watts.at("board_w")).first;
      EXPECT_NEAR(same->second, watts.at("board_w"), 1e-9) << name << " " << kernel;
      error += std::abs(watts.at("model_w") / watts.at("board_w") - 1);
    }
    EXPECT_NEAR(100 * error / static_cast<double>(cells.size()), table.error, 0.051) << name;
  }
  const Cells volta = cells_of("accelwattch/volta-board.csv");
  EXPECT_EQ(volta.size(), 26u);
  for (const auto& [kernel, watts] : volta) {
    EXPECT_NEAR(watts.at("board_w"), board.at("volta " + kernel), 1e-9) << kernel;
    EXPECT_LT(watts.at("deviation_w"), 0.06 * watts.at("board_w")) << kernel;
  }
}

// The model `hw` takes the power of the pipeline from its duty and that of the shared memory from
// its accesses per cycle: the counters are of the same kernels as the powers.
TEST(Published, AccelWattchsCountersBelongToItsPowers) {
  const Cells counters = cells_of("accelwattch/volta-counters.csv");
  const Cells power = cells_of("accelwattch/volta-hw.csv");
  EXPECT_EQ(counters.size(), power.size());
  for (const auto& [kernel, watts] : power) {
    const auto& count = counters.at(kernel);
    EXPECT_NEAR(watts.at("pipeline_w") / count.at("pipeline_duty"), 28.7, 0.5) << kernel;
    EXPECT_NEAR(watts.at("shared_memory_w"), 0.864 * count.at("shared_memory") / count.at("cycles"),
                0.01 + 0.01 * watts.at("shared_memory_w"))
        << kernel;
    EXPECT_LE(count.at("pipeline_duty"), 1) << kernel;
    EXPECT_LT(count.at("idle_sms"), 80) << kernel;
  }
}

// Nothing ends before its own shortest time, and what was simulated is near what was measured.
TEST(Published, EndsOnTheA30AreNoEarlierThanTheTasksTimes) {
  const Cells ends = cells_of("rodinia/far-table3.csv");
  EXPECT_EQ(ends.size(), 9u);
  for (const auto& [task, end] : ends)
    EXPECT_NEAR(end.at("real_end_s") / end.at("simulated_end_s"), 1, 0.024) << task;
  const std::string file = "data/batches/rodinia-a30.csv";
  const Csv times = *parse_csv(file, source_text(file));
  for (const CsvRow& row : times.rows)
    EXPECT_GE(ends.at(row.cells[0]).at("real_end_s"),
              std::min(std::stod(row.cells[2]), std::stod(row.cells[3])));
}

}  // namespace
}  // namespace partita::profile
