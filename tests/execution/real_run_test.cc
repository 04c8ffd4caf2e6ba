// The runner of real time: real processes, real files, the driver on a thread of its own; only the
// GPUs are simulated.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "cases.h"
#include "verify/judge.h"

namespace partita::execution_tests {
namespace {

class RealRun : public testing::Test {
 protected:
  RealRun() : one_(some_case()), machine_(machine_of(one_)), driver_(*machine_) {
    std::filesystem::create_directories(folder_);
    carry::ScriptOptions options;
    options.devices = {0};
    script_ = *carry::make_script(
        one_.problem, verify::judge(one_.problem, one_.schedule).value(), options);
  }
  ~RealRun() override { std::filesystem::remove_all(folder_); }

  static Case some_case() {
    Rng rng(11);
    while (true) {
      Case one = random_case(rng, {.most_tasks = 8, .most_gpus = 1, .gpus = {"A30-24GB"}}, "far");
      if (one.problem.tasks.size() >= 6 && one.schedule.reconfigurations.size() >= 5) return one;
    }
  }
  std::unique_ptr<drivers::sim::SharedMachine> machine_of(const Case& one) {
    const hw::GpuModel* model = hw::builtin_catalogue().find(one.problem.models[0].name);
    return drivers::sim::own_machine({{{model, 1, true}}, "real"}, clock_, 0.01);
  }

  // Runs the batch with this command for all tasks, and is asked to end once `ends` says so.
  exec::RunReport run(const std::string& command, const std::function<bool()>& ends = {}) {
    for (exec::ScriptTask& task : script_.tasks) task.command = command;
    const exec::Doors doors{driver_, processes_, files_, clock_};
    auto session = exec::open_session(script_, doors,
                                      {.journal = folder_ + "/journal",
                                       .run = "real-" + std::to_string(clock_.now_ns()),
                                       .log_dir = folder_ + "/logs",
                                       .find = exec::find_attempts});
    CHECK(session.has_value());
    session->settings.interrupted = ends;
    exec::BatchExecutor executor(script_, {}, session->past);
    EXPECT_FALSE(exec::run_real(executor, script_, doors, session->settings).journal.has_value());
    EXPECT_TRUE(exec::close_session(*session, executor.report(), doors));
    return executor.report();
  }
  std::size_t instances() {
    const auto state = driver_.read(0);
    CHECK(state.has_value());
    return state->instances.size();
  }

  const std::string folder_ =
      (std::filesystem::temp_directory_path() / ("partita-real-" + std::to_string(::getpid())))
          .string();
  RealClock clock_;
  RealProcesses processes_;
  RealFiles files_;
  Case one_;
  std::unique_ptr<drivers::sim::SharedMachine> machine_;
  drivers::sim::SimDriver driver_;
  exec::Script script_;
};

TEST_F(RealRun, RunsEveryTaskOnItsInstance) {
  const exec::RunReport report = run("echo $PARTITA_TASK $PARTITA_PROFILE >> " + folder_ + "/ran");
  EXPECT_EQ(report.count(exec::TaskStatus::finished), static_cast<int>(script_.tasks.size()));
  EXPECT_EQ(instances(), 0u);
  const auto ran = files_.read(folder_ + "/ran");
  ASSERT_TRUE(ran.has_value());
  for (const exec::ScriptTask& task : script_.tasks) {
    const exec::Visit& visit = script_.visits[static_cast<std::size_t>(task.visit)];
    EXPECT_NE(("\n" + *ran).find("\n" + task.name + " " + visit.place.profile + "\n"),
              std::string::npos);
  }
  for (const auto& changes : report.changes)
    for (const exec::ChangeRun& change : changes)
      EXPECT_EQ(change.status, exec::ChangeStatus::done);
}

TEST_F(RealRun, InterruptedLeavesNothingAndGoesOn) {
  const std::string started = folder_ + "/started";
  const std::string command = "echo >> " + started + "; [ -e " + folder_ + "/go ] || sleep 60";
  const exec::RunReport first = run(command, [&] { return files_.exists(started); });
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.count(exec::TaskStatus::finished), 0);
  EXPECT_EQ(instances(), 0u);
  ASSERT_TRUE(files_.write_atomic(folder_ + "/go", "").has_value());
  const exec::RunReport second = run(command);
  EXPECT_EQ(second.count(exec::TaskStatus::finished), static_cast<int>(script_.tasks.size()));
  EXPECT_EQ(second.resumed, 0);
  EXPECT_EQ(instances(), 0u);
}

}  // namespace
}  // namespace partita::execution_tests
