// Shares and answers against hand values; the daemon against the scripted control program of
// tests/devices, which has real processes.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "drivers/mps/answer.h"
#include "drivers/mps/daemon.h"
#include "drivers/mps/share.h"

namespace partita::drivers::mps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Constraint = ShareFault::Constraint;

TEST(Shares, equal_ones_never_exceed_the_device) {
  EXPECT_EQ(equal_shares(3, Mib{40192}), std::vector<Share>(3, {33, {13397}}));
  for (int clients = 1; clients <= kMaxClients; ++clients)
    EXPECT_THAT(check_shares(equal_shares(clients, Mib{9856}), {.memory = Mib{9856}}), IsEmpty());
}

TEST(Shares, are_refused_with_what_they_break) {
  const std::vector<Share> unequal{{70, {6000}}, {30, {3000}}};
  EXPECT_THAT(check_shares(unequal, {.memory = Mib{9000}}), IsEmpty());
  EXPECT_THAT(check_shares(unequal, {.memory = Mib{8999}}),
              ElementsAre(ShareFault{Constraint::memory_sum, -1, 8999, 9000}));
  EXPECT_THAT(check_shares(unequal, {}), IsEmpty());
  const std::vector<Share> greedy{{70, {}}, {40, {}}};
  EXPECT_THAT(check_shares(greedy, {}),
              ElementsAre(ShareFault{Constraint::percentage_sum, -1, 100, 110}));
  EXPECT_THAT(check_shares(greedy, {.oversubscribed = true}), IsEmpty());
  const std::vector<Share> wrong{{0, {}}, {101, {}}, {-200, {-1}}};
  EXPECT_THAT(check_shares(wrong, {}), ElementsAre(ShareFault{Constraint::percentage, 0, 100, 0},
                                                   ShareFault{Constraint::percentage, 1, 100, 101},
                                                   ShareFault{Constraint::percentage, 2, 100, -200},
                                                   ShareFault{Constraint::memory, 2, 0, -1}));
  EXPECT_THAT(check_shares(std::vector(49, Share{1, {}}), {}),
              ElementsAre(ShareFault{Constraint::clients, -1, 48, 49}));
  EXPECT_EQ(to_string(ShareFault{Constraint::percentage_sum, -1, 100, 110}),
            "the clients ask for 110 % of the threads together, there are 100 %");
}

TEST(Answers, are_read) {
  EXPECT_THAT(parse_pids("12\n 34\r\n\n").value(), ElementsAre(12, 34));
  EXPECT_THAT(parse_pids("").value(), IsEmpty());
  EXPECT_FALSE(parse_pids("Server is not ready"));
  EXPECT_FALSE(parse_pids("-4"));
  EXPECT_EQ(parse_percentage("100.0\n").value(), 100);
  EXPECT_EQ(parse_percentage("set to 12.5%").value(), 12.5);
  EXPECT_FALSE(parse_percentage("200"));
  EXPECT_FALSE(parse_percentage(""));
}

TEST(Answers, tables_of_partitions_are_known) {
  EXPECT_TRUE(lists_partitions("GPU  Partition free used free used clients\n"
                               "               chunk chunk SM SM\n"
                               "GPU-7 -   2 14 16 112 -\n"));
  EXPECT_FALSE(lists_partitions("Unknown command: lspart"));
  EXPECT_FALSE(lists_partitions("Static partitioning is not enabled"));
  EXPECT_FALSE(lists_partitions(""));
}

TEST(Places, fit_into_the_address_of_a_socket) {
  const std::string device = "MIG-2428a716-ba1a-5eae-959f-22f6c93b0f14";
  const Place place = place_of("/run/partita", device).value();
  EXPECT_EQ(place.pipe_directory, "/run/partita/" + device + "/pipe");
  // 107 bytes less "/MIG-.../pipe/control_privileged"
  const std::string longest(107 - 41 - 5 - 19, 'r');
  EXPECT_TRUE(place_of(longest, device));
  EXPECT_THAT(to_string(place_of(longest + "r", device).error()), HasSubstr("1 bytes too many"));
  EXPECT_EQ(place_of("/r", "MIG-GPU-1/7/0").value().pipe_directory, "/r/MIG-GPU-1_7_0/pipe");
}

TEST(Clients, get_what_they_need_in_their_environment) {
  const Place place{"MIG-1", "/r/pipe", "/r/log"};
  std::map<std::string, std::string> expected{{"CUDA_VISIBLE_DEVICES", "MIG-1"},
                                              {"CUDA_MPS_PIPE_DIRECTORY", "/r/pipe"},
                                              {"CUDA_MPS_LOG_DIRECTORY", "/r/log"},
                                              {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"}};
  EXPECT_EQ(client_environment(place, {.percentage = 30, .pinned_memory = {}}), expected);
  expected["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = "0=1234M";
  EXPECT_EQ(client_environment(place, {.percentage = 30, .pinned_memory = {1234.9}}), expected);
}

// A runtime directory and the doors of one daemon; nothing runs any more when it is gone.
class Daemons : public testing::Test {
 protected:
  Daemons() {
    char name[] = "/tmp/mps_test.XXXXXX";
    runtime_ = ::mkdtemp(name);
    misbehave("");
  }
  ~Daemons() override {
    misbehave("");
    const Pid pid = recorded_pid();
    static_cast<void>(daemon().quit());
    // The scripted daemon removes its file a moment before it ends.
    const std::int64_t until = clock_.now_ns() + 2'000'000'000;
    while (pid != 0 && processes_.alive(pid) && clock_.now_ns() < until) clock_.sleep_ns(1'000'000);
    EXPECT_FALSE(pid != 0 && processes_.alive(pid));
    std::filesystem::remove_all(runtime_);
  }

  static void misbehave(const std::string& how) { ::setenv("FAKE_MPS", how.c_str(), 1); }
  Place place() const { return place_of(runtime_, "MIG-1").value(); }
  Daemon daemon(std::int64_t timeout_ns = 5'000'000'000) {
    return Daemon({processes_, files_, clock_}, place(),
                  {.program = PARTITA_SOURCE_DIR "/tests/devices/nvidia-cuda-mps-control",
                   .timeout_ns = timeout_ns});
  }
  Pid recorded_pid() {
    const auto text = files_.read(place().pipe_directory + "/nvidia-cuda-mps-control.pid");
    return text ? std::stol(*text) : 0;
  }
  void put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(files_.write_atomic(place().pipe_directory + "/" + name, text));
  }

  std::string runtime_;
  RealProcesses processes_;
  RealFiles files_;
  RealClock clock_;
};

TEST_F(Daemons, start_on_their_device_answer_and_quit) {
  Daemon daemon = this->daemon();
  EXPECT_EQ(daemon.health().error().code, ErrorCode::not_found);
  ASSERT_TRUE(daemon.start());
  EXPECT_THAT(files_.read(place().log_directory + "/control.log").value(), "device MIG-1\n");
  put("servers", "71\n72\n");
  put("clients.72", "5\n6\n");
  const Result<Health> health = daemon.health();
  ASSERT_TRUE(health) << to_string(health.error());
  EXPECT_EQ(*health, (Health{recorded_pid(), {{71, {}}, {72, {5, 6}}}}));

  const Pid pid = recorded_pid();
  ASSERT_TRUE(this->daemon().start());  // found by another object, kept
  EXPECT_EQ(recorded_pid(), pid);
  ASSERT_TRUE(daemon.quit());
  EXPECT_FALSE(processes_.alive(pid));
  EXPECT_EQ(daemon.health().error().code, ErrorCode::not_found);
  EXPECT_TRUE(daemon.quit());
}

TEST_F(Daemons, that_cannot_start_say_why) {
  misbehave("fail");
  const Result<void> started = daemon().start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::environment);
  EXPECT_THAT(to_string(started.error()), HasSubstr("cannot create the log directory"));

  misbehave("mute");
  EXPECT_EQ(daemon(100'000'000).start().error().code, ErrorCode::timeout);
  EXPECT_EQ(recorded_pid() != 0 && processes_.alive(recorded_pid()), false);

  misbehave("rubbish");
  const Result<void> rubbish = daemon(2'000'000'000).start();
  ASSERT_FALSE(rubbish);
  EXPECT_THAT(to_string(rubbish.error()), HasSubstr("no percentage in its answer 'segm"));
  EXPECT_EQ(recorded_pid() != 0 && processes_.alive(recorded_pid()), false);

  Daemon missing({processes_, files_, clock_}, place(), {.program = "no-such-mps-control"});
  EXPECT_EQ(missing.start().error().code, ErrorCode::no_driver);
  EXPECT_EQ(missing.quit().error().code, ErrorCode::no_driver);
}

TEST_F(Daemons, that_hang_are_given_up_and_killed) {
  Daemon impatient = this->daemon(100'000'000);
  ASSERT_TRUE(daemon().start());
  const Pid pid = recorded_pid();
  misbehave("hang=get_server_list");
  EXPECT_EQ(impatient.health().error().code, ErrorCode::timeout);
  EXPECT_TRUE(processes_.alive(pid));
  misbehave("hang=quit");
  ASSERT_TRUE(impatient.quit());
  EXPECT_FALSE(processes_.alive(pid));

  misbehave("stuck");
  ASSERT_TRUE(daemon().start());
  const Pid stuck = recorded_pid();
  ASSERT_TRUE(impatient.quit());
  EXPECT_FALSE(processes_.alive(stuck));
}

TEST_F(Daemons, that_crashed_leave_nothing_that_disturbs) {
  Daemon daemon = this->daemon();
  ASSERT_TRUE(daemon.start());
  const Pid pid = recorded_pid();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  while (processes_.alive(pid)) clock_.sleep_ns(1'000'000);
  EXPECT_EQ(daemon.health().error().code, ErrorCode::not_found);
  ASSERT_TRUE(daemon.start());
  EXPECT_NE(recorded_pid(), pid);
  EXPECT_TRUE(daemon.health());
  ASSERT_TRUE(daemon.quit());

  // A pid file that names a stranger: he is left alone.
  put("nvidia-cuda-mps-control.pid", std::to_string(::getpid()));
  misbehave("mute");
  EXPECT_FALSE(this->daemon(100'000'000).start());  // and we are still here
}

TEST_F(Daemons, with_static_partitions_are_replaced) {
  Daemon daemon = this->daemon();
  ASSERT_TRUE(daemon.start());
  const Pid shared = recorded_pid();
  put("static", "yes");
  ASSERT_TRUE(daemon.start());
  EXPECT_NE(recorded_pid(), shared);
  const Pid replaced = recorded_pid();
  ASSERT_TRUE(daemon.start());
  EXPECT_EQ(recorded_pid(), replaced);
}

}  // namespace
}  // namespace partita::drivers::mps
