#include "base/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace partita {
namespace {

using std::chrono::milliseconds;

class ChildTest : public ::testing::Test {
 protected:
  ChildTest()
      : folder_(std::filesystem::temp_directory_path() / ("child" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ChildTest() override { std::filesystem::remove_all(folder_); }
  ChildSpec shell(const std::string& script) const {
    return {.argv = {"sh", "-c", script}, .called = "the script", .output = log()};
  }
  std::string log() const { return folder_ / "log"; }
  std::string printed() const {
    std::ifstream file(log());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path folder_;
};

TEST_F(ChildTest, TellsTheStatus) {
  EXPECT_EQ(Child::start(shell("echo out; echo err >&2; exit 3"))->wait(), 3);
  EXPECT_EQ(printed(), "out\nerr\n");
  EXPECT_EQ(Child::start(shell("kill -9 $$"))->wait(), 128 + SIGKILL);
}

// Whatever we ignore or block, a program begins as from a shell: each signal ends it.
TEST_F(ChildTest, BeginsWithSignalsAsTheyAre) {
  for (const auto& [name, number] :
       {std::pair{"HUP", SIGHUP}, {"PIPE", SIGPIPE}, {"TERM", SIGTERM}, {"RTMAX", SIGRTMAX}}) {
    for (const bool blocked : {false, true}) {
      sigset_t set, before;
      sigemptyset(&set);
      sigaddset(&set, number);
      if (blocked) ::sigprocmask(SIG_BLOCK, &set, &before);
      const auto handler = blocked ? SIG_ERR : ::signal(number, SIG_IGN);
      auto child = Child::start(shell(std::string("kill -") + name + " $$; exit 3"));
      EXPECT_EQ(child->wait(), 128 + number) << name;
      if (blocked)
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
      else
        ::signal(number, handler);
    }
  }
}

TEST_F(ChildTest, QuietOnesSayOnlyWhatIsWrong) {
  ChildSpec spec = shell("echo out; echo err >&2");
  spec.quiet = true;
  spec.output = "";
  const int kept[] = {::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
  std::ofstream(log()).flush();
  const int file = ::open(log().c_str(), O_WRONLY | O_APPEND);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  const int status = Child::start(spec)->wait();
  ::dup2(kept[0], STDOUT_FILENO);
  ::dup2(kept[1], STDERR_FILENO);
  for (const int one : {kept[0], kept[1], file}) ::close(one);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(printed(), "err\n");
}

TEST_F(ChildTest, OutputThatCannotBeOpenedIsNamed) {
  ChildSpec spec = shell("exit 0");
  spec.output = folder_ / "gone" / "log";
  const auto started = Child::start(spec);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().context, spec.output);
}

TEST_F(ChildTest, ItsStatusMayBeAskedForAgain) {
  auto child = Child::start(shell("exit 7"));
  EXPECT_EQ(child->wait(), 7);
  EXPECT_EQ(child->wait(), 7);
  EXPECT_FALSE(child->runs());
  auto other = Child::start(shell("exit 8"));
  while (other->runs()) ::usleep(1000);
  EXPECT_EQ(other->wait(), 8);
}

// One that is to outlive us, but did not get ready, does not.
TEST_F(ChildTest, OneThatWasNotReadyIsNotLeft) {
  ChildSpec spec = shell("echo $$; exec sleep 60");
  spec.outlives = true;
  spec.ready_within = milliseconds(300);
  ASSERT_FALSE(Child::start(spec));
  ASSERT_NE(printed(), "");
  EXPECT_EQ(::kill(std::stoi(printed()), 0), -1);
}

TEST_F(ChildTest, AProgramThatIsNotThereIsRefused) {
  const auto started = Child::start({.argv = {"no-such-program-anywhere"}});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().context, "no-such-program-anywhere");
  EXPECT_EQ(started.error().message, "No such file or directory");
}

TEST_F(ChildTest, IsReadyWhenItSaysSo) {
  ChildSpec spec =
      shell("echo before; eval \"printf x >&$PARTITA_READY_FD\"; read line; echo $line");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  spec.input = ends[0];
  spec.ready_within = milliseconds(20'000);
  auto child = Child::start(spec);
  ASSERT_TRUE(child) << to_string(child.error());
  EXPECT_EQ(printed(), "before\n");
  EXPECT_TRUE(child->runs());
  ASSERT_EQ(::write(ends[1], "after\n", 6), 6);
  EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(printed(), "before\nafter\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ChildTest, FailureIsToldInItsOwnWords) {
  std::ofstream(log()) << "of an earlier one\n";
  ChildSpec spec = shell("echo 'port 80: taken' >&2; exit 2");
  spec.ready_within = milliseconds(20'000);
  auto refused = Child::start(spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "port 80: taken");
  EXPECT_EQ(refused.error().context, "the script");
  spec.argv[2] = "exit 2";
  EXPECT_EQ(Child::start(spec).error().message, "ended with 2");
  spec.argv[2] = "sleep 100";
  spec.ready_within = milliseconds(50);
  EXPECT_EQ(Child::start(spec).error().message, "was not ready within 50 ms");
}

TEST_F(ChildTest, EndsWithItsOwner) {
  ChildSpec spec = shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
  spec.ends_within = milliseconds(50);
  pid_t pid = 0;
  {
    auto child = Child::start(spec);
    ASSERT_TRUE(child);
    pid = child->pid();
    while (printed() != "up\n") ::usleep(1000);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(ChildTest, HasItsTimeToEnd) {
  ChildSpec spec = shell(
      "trap 'sleep 0.05; echo down; exit 0' TERM; echo up; "
      "while :; do sleep 0.01; done");
  spec.ends_within = milliseconds(20'000);
  {
    auto child = Child::start(spec);
    ASSERT_TRUE(child);
    while (printed() != "up\n") ::usleep(1000);
  }
  EXPECT_EQ(printed(), "up\ndown\n");
}

// Killed, its owner cannot end it: the kernel does.
TEST_F(ChildTest, EndsWhenItsOwnerIsKilled) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto child = Child::start(shell("echo $$; exec sleep 60"));
    ::pause();
  }
  while (!printed().ends_with("\n")) ::usleep(1000);
  const pid_t pid = std::stoi(printed());
  ::kill(owner, SIGKILL);
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
  const auto ended = [pid] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state = "Z";
    file >> number >> name >> state;
    return state == "Z";  // of which nobody here is the parent
  };
  for (int i = 0; i < 5000 && !ended(); ++i) ::usleep(1000);
  EXPECT_TRUE(ended());
}

TEST_F(ChildTest, HasTheGroupThatItIsTold) {
  for (const auto group : {ChildSpec::Group::ours, ChildSpec::Group::own_group}) {
    ChildSpec spec = shell("read line");
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    spec.input = ends[0];
    spec.group = group;
    auto child = Child::start(spec);
    ASSERT_TRUE(child);
    EXPECT_EQ(::getpgid(child->pid()),
              group == ChildSpec::Group::ours ? ::getpgid(0) : child->pid());
    EXPECT_EQ(::getsid(child->pid()), ::getsid(0));
    ::close(ends[1]);
    child->wait();
    ::close(ends[0]);
  }
}

// Once, where somebody waits for it.
TEST_F(ChildTest, ReadinessIsSaidToWhoeverStartedUs) {
  say_ready();  // nobody has asked
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::setenv("PARTITA_READY_FD", std::to_string(ends[1]).c_str(), 1);
  say_ready();
  EXPECT_EQ(::getenv("PARTITA_READY_FD"), nullptr) << "its children would say so, too";
  say_ready();
  char text[8];
  EXPECT_EQ(::read(ends[0], text, sizeof text), 1);
  EXPECT_EQ(::read(ends[0], text, sizeof text), 0) << "closed";
  ::close(ends[0]);
}

TEST_F(ChildTest, OutlivesItsOwnerWhereItIsTold) {
  ChildSpec spec = shell("read line; echo gone");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  spec.input = ends[0];
  spec.outlives = true;
  spec.group = ChildSpec::Group::own_session;
  { ASSERT_TRUE(Child::start(spec)); }
  EXPECT_EQ(printed(), "");
  ::close(ends[1]);
  while (printed() != "gone\n") ::usleep(1000);
  ::close(ends[0]);
}

}  // namespace
}  // namespace partita
