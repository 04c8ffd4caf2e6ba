#include "act/batch/commands.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Commands, ATaskIsStartedInAShellThatNotesItsStatus) {
  Script script = test::halves();
  script.tasks[2].name = "b c/-.:";
  const ProcessSpec spec = process_of(script, {2, 3, "MIG-x"}, {.run = "r1", .log_dir = "logs/r1"});
  ASSERT_EQ(spec.argv.size(), 6U);
  EXPECT_EQ(spec.argv[0], "/bin/sh");
  EXPECT_EQ(spec.argv[1], "-c");
  EXPECT_EQ(spec.argv[4], "run b");
  EXPECT_EQ(spec.argv[5], "logs/r1/0003-b_c_-._.3.status");
  EXPECT_EQ(spec.log_file, "logs/r1/0003-b_c_-._.log");
  EXPECT_EQ(spec.environment, (std::map<std::string, std::string>{{"CUDA_VISIBLE_DEVICES", "MIG-x"},
                                                                  {"PARTITA_ATTEMPT", "3"},
                                                                  {"PARTITA_PROFILE", "2g.12gb"},
                                                                  {"PARTITA_RUN", "r1"},
                                                                  {"PARTITA_TASK", "b c/-.:"}}));
  const ProcessSpec silent = process_of(script, {0, 1, {}}, {"r1", ""});
  EXPECT_EQ(silent.log_file, "");
  EXPECT_EQ(silent.argv[5], "");
}

TEST(Commands, AWrittenStatusIsOfItsRunAndWhole) {
  const Script script = test::halves();
  const RunPaths paths{.run = "r1", .log_dir = "d"};
  MemoryFiles files;
  const auto status = [&](const std::string& text) {
    files.content["d/0002-a.4.status"] = text;
    return written_status(script, {1, 4, {}}, paths, files);
  };
  EXPECT_EQ(status("r1 0\n"), 0);
  EXPECT_EQ(status("r1 137\n"), 137);
  EXPECT_EQ(status("r1 13"), std::nullopt) << "it is being written";
  EXPECT_EQ(status("r2 0\n"), std::nullopt);
  EXPECT_EQ(status("r11 0\n"), std::nullopt);
  EXPECT_EQ(status("r1 x\n"), std::nullopt);
  EXPECT_EQ(status(""), std::nullopt);
  status("r1 0\n");
  EXPECT_EQ(written_status(script, {1, 3, {}}, paths, files), std::nullopt);
  EXPECT_EQ(written_status(script, {0, 4, {}}, paths, files), std::nullopt);
  files.content[""] = "r1 0\n";
  EXPECT_EQ(written_status(script, {1, 4, {}}, {"r1", ""}, files), std::nullopt);
}

// Real processes, which end of themselves if the test does not end them.
struct CommandsTest : testing::Test {
  CommandsTest() { std::filesystem::create_directories(folder); }
  ~CommandsTest() override {
    for (const Pid pid : started) static_cast<void>(processes.stop(pid, StopSignal::kill));
    std::filesystem::remove_all(folder);
  }
  Pid start(const std::string& command, const std::string& task = "a", int attempt = 1) {
    Script script = test::row({task});
    script.tasks[0].command = command;
    const auto pid = processes.start(process_of(script, {0, attempt, "MIG-x"}, paths));
    EXPECT_TRUE(pid);
    started.push_back(pid.value_or(0));
    return started.back();
  }
  int status_of(Pid pid) {
    for (;;) {
      for (const ProcessExit& exit : processes.exited())
        if (exit.pid == pid) return exit.status;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::optional<int> written(int attempt = 1) {
    return written_status(test::row({"a"}), {0, attempt, "MIG-x"}, paths, files);
  }
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(folder + "/" + name);
  }

  const std::string folder = fmt::format(
      "{}/partita-commands-{}", std::filesystem::temp_directory_path().string(), ::getpid());
  const RunPaths paths{.run = fmt::format("run-{}", ::getpid()), .log_dir = folder};
  RealProcesses processes;
  RealFiles files;
  std::vector<Pid> started;
};

TEST_F(CommandsTest, StatusAndOutputAreThereForWhoComesLater) {
  EXPECT_EQ(status_of(start("echo $PARTITA_TASK of $PARTITA_PROFILE; exit 3")), 3);
  EXPECT_EQ(written(), 3);
  EXPECT_EQ(files.read(folder + "/0001-a.log").value(), "a of 2g.12gb\n");
  EXPECT_EQ(status_of(start("true", "a", 2)), 0);
  EXPECT_EQ(written(2), 0);
}

// Asked to end, the command has its time to, and its own status is noted.
TEST_F(CommandsTest, TheShellWaitsForACommandThatIsAskedToEnd) {
  const Pid pid = start(fmt::format(
      "trap 'exit 9' TERM; touch {0}/ready; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; done",
      folder));
  while (!is_there("ready")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(processes.stop(pid, StopSignal::terminate));
  EXPECT_EQ(status_of(pid), 9);
  EXPECT_EQ(written(), 9);
}

TEST_F(CommandsTest, RunningAttemptsAreFoundByTheirEnvironment) {
  EXPECT_TRUE(find_attempts(paths.run).empty());
  const Pid a = start("sleep 5; true"), b = start("sleep 5; true", "b", 12);
  // The kernel shows no environment while a program is being put in place.
  for (int look = 0; look < 2'000 && find_attempts(paths.run).size() < 2; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(find_attempts(paths.run), ElementsAre(Pair(Pair("a", 1), a), Pair(Pair("b", 12), b)))
      << "and not their children";
  EXPECT_TRUE(find_attempts(paths.run + "0").empty());
  EXPECT_TRUE(find_attempts("").empty());
}

// a runs, b has ended and left its status, c has ended and left nothing; d is of no script.
TEST(Follow, AdoptsWhatRunsAndReadsWhatTheOthersLeft) {
  const Script script = test::halves();
  ManualClock clock;
  SimProcesses processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; });
  const Pid a = *processes.start({.argv = {"a"}}), gone = *processes.start({.argv = {"b"}});
  processes.crash(gone, 1);
  processes.orphan_all();
  MemoryFiles files;
  files.content["d/0002-a.1.status"] = "r1 7\n";
  files.content["d/0003-b.2.status"] = "r1 5\n";
  std::vector<Record> records;
  for (const std::string task : {"a", "b", "c", "d"}) {
    records.push_back({.kind = Record::Kind::start, .task = task, .attempt = task == "b" ? 2 : 1});
  }
  const Traces traces = follow(script, records, {{{"a", 1}, a}, {{"b", 2}, gone}},
                               {.run = "r1", .log_dir = "d"}, processes, files);
  EXPECT_EQ(traces.running, (Attempts{{{"a", 1}, a}}));
  EXPECT_THAT(traces.ended, ElementsAre(Pair(Pair("b", 2), 5)));
  processes.crash(a, 3);
  EXPECT_THAT(processes.exited(), ElementsAre(ProcessExit{a, kUnknownStatus})) << "it was adopted";
}

}  // namespace
}  // namespace partita::exec
