// Runs of batches of a live agent: threads, real processes and files; only the GPUs are simulated.
// The end of a runner is to its runs what kill -9 of an agent is.
#include "control/host/batch_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "drivers/sim/sim_driver.h"

namespace partita::execution_tests {
namespace {

using control::BatchRunNow;
using control::BatchTaskState;

class LiveBatch : public testing::Test {
 protected:
  LiveBatch()
      : machine_(drivers::sim::own_machine(
            {{{hw::builtin_catalogue().find("A100-80GB"), 2, true}}, "live"}, clock_, 0.01)),
        driver_(*machine_) {
    std::filesystem::create_directories(folder_);
    const auto state = device::read_node(driver_);
    for (const device::GpuState& gpu : state->gpus) {
      control::BatchGpu& one = deed_.gpus.emplace_back();
      one.index = gpu.index;
      one.uuid = gpu.uuid;
      one.model = gpu.model;
    }
    deed_.key = "1-1-ab";
    deed_.batch = 1;
    deed_.grace_s = 5;
  }
  ~LiveBatch() override { std::filesystem::remove_all(folder_); }

  // Tasks that say when they begin and when they have come to their end.
  void add_task(const std::string& name, double seconds, const std::string& end = "true") {
    if (deed_.tasks.empty())
      deed_.tasks = "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command\n";
    const std::string said = folder_ + "/said";
    deed_.tasks += fmt::format(
        "{0},1,1,1,1,1,echo begin {0} >> {1}; sleep {2}; echo end {0} >> "
        "{1}; {3}\n",
        name, said, seconds, end);
  }
  std::map<std::string, int> said() const {
    std::map<std::string, int> lines;
    std::ifstream file(folder_ + "/said");
    for (std::string line; std::getline(file, line);) ++lines[line];
    return lines;
  }
  int begun() const {
    int count = 0;
    for (const auto& [line, times] : said()) count += line.starts_with("begin") ? times : 0;
    return count;
  }
  std::unique_ptr<control::BatchRunner> runner() {
    const auto open = [this]() -> Result<std::shared_ptr<device::NodeDriver>> {
      return std::make_shared<drivers::sim::SimDriver>(*machine_);
    };
    return std::make_unique<control::BatchRunner>(control::BatchRunnerDoors{
        open, folder_, [] { return std::int64_t{1'767'571'200'000}; }, catalogue_, {}});
  }
  template <class What>
  static void until(What what) {
    while (!what()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  static BatchRunNow over(control::BatchRunner& runner) {
    until([&] { return runner.runs().size() == 1 && runner.runs().front().over; });
    return runner.runs().front();
  }
  std::size_t instances(int gpu) { return driver_.read(gpu)->instances.size(); }

  const std::string folder_ =
      (std::filesystem::temp_directory_path() / fmt::format("partita-live-{}", ::getpid()))
          .string();
  RealClock clock_;
  hw::Catalogue catalogue_ = hw::builtin_catalogue();
  std::unique_ptr<drivers::sim::SharedMachine> machine_;
  drivers::sim::SimDriver driver_;
  control::BatchDeed deed_;
};

TEST_F(LiveBatch, EveryTaskRunsOnceThoughRunnersEnd) {
  for (int t = 0; t < 6; ++t) add_task(fmt::format("t{}", t), 0.05 + 0.1 * t);
  add_task("bad", 0, "exit 3");
  for (const int wanted : {1, 3, 5}) {
    auto mortal = runner();
    mortal->carry({deed_});
    until([&] { return begun() >= wanted; });
  }
  auto last = runner();
  last->carry({deed_});
  const BatchRunNow now = over(*last);
  ASSERT_EQ(now.tasks.size(), 7U);
  for (const control::BatchTask& task : now.tasks) {
    EXPECT_EQ(task.state, task.name == "bad" ? BatchTaskState::failed : BatchTaskState::done)
        << task.name << ": " << task.reason;
    EXPECT_EQ(said()["begin " + task.name], 1) << task.name;
    EXPECT_EQ(said()["end " + task.name], 1) << task.name;
    EXPECT_LE(task.begin_ms, task.end_ms);
  }
  EXPECT_EQ(instances(0) + instances(1), 0U);
  last.reset();
  auto told_again = runner();  // a run that is over is told again, not made again
  told_again->carry({deed_});
  EXPECT_EQ(over(*told_again), now);
  EXPECT_EQ(begun(), 7);
  told_again->carry({});
  EXPECT_TRUE(told_again->runs().empty());
}

TEST_F(LiveBatch, AGpuThatIsWantedBackIsLeft) {
  deed_.gpus.resize(1);
  add_task("long", 600);
  auto live = runner();
  live->carry({deed_});
  until([&] { return begun() == 1; });
  deed_.gpus[0].leave = true;
  live->carry({deed_});  // it may come to its end
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(live->runs().front().over);
  deed_.gpus[0].stop = true;
  live->carry({deed_});
  const BatchRunNow now = over(*live);
  EXPECT_EQ(now.tasks.front().state, BatchTaskState::waiting);
  EXPECT_EQ(said().count("end long"), 0U);
  EXPECT_EQ(instances(0), 0U);
}

// Asked to end for a GPU that was needed, and then the agent is killed: its exit status is no
// failure, whether it ends before the next agent is there or after, whether that wants the GPU
// still or not.
TEST_F(LiveBatch, WhatWasAskedToEndHasNotFailedThoughItsRunnerEnded) {
  for (const bool ends_before : {true, false})
    for (const bool still_wanted : {true, false}) {
      SCOPED_TRACE(fmt::format("ends before: {}, still wanted: {}", ends_before, still_wanted));
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      const std::string began = folder_ + "/began", asked = folder_ + "/asked";
      const std::string go = folder_ + "/go", gone = folder_ + "/gone";
      deed_.key = fmt::format("1-{}-{}", ends_before, still_wanted);
      deed_.gpus.resize(1);
      deed_.gpus[0].leave = deed_.gpus[0].stop = false;
      deed_.tasks = fmt::format(
          "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command\n"
          "long,1,1,1,1,1,if test -e {0}; then true; else trap 'touch {1}; while ! test "
          "-e {2}; do sleep 0.01; done; touch {3}; exit 143' TERM; touch {0}; sleep 600 & wait; "
          "fi\n",
          began, asked, go, gone);
      auto live = runner();
      live->carry({deed_});
      until([&] { return std::filesystem::exists(began); });
      deed_.gpus[0].leave = deed_.gpus[0].stop = true;
      live->carry({deed_});
      until([&] { return std::filesystem::exists(asked); });
      live.reset();
      const auto end = [&] {
        std::ofstream(go).put('1');
        until([&] { return std::filesystem::exists(gone); });
      };
      if (ends_before) end();
      if (!still_wanted) deed_.gpus[0].leave = deed_.gpus[0].stop = false;
      auto next = runner();
      next->carry({deed_});
      if (!ends_before) end();
      const control::BatchTask task = over(*next).tasks.front();
      EXPECT_EQ(task.state, still_wanted ? BatchTaskState::waiting : BatchTaskState::done)
          << task.reason;
      EXPECT_EQ(instances(0), 0U);
    }
}

TEST_F(LiveBatch, WhatCannotBeginSaysWhy) {
  deed_.tasks = "task,time_s_1g,command\nbroken,-1,true\n";
  auto live = runner();
  live->carry({deed_});
  EXPECT_NE(over(*live).error.find("tasks:2"), std::string::npos);
}

}  // namespace
}  // namespace partita::execution_tests
