#include "base/files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include "base/input_output.h"

// ---- what a power cut leaves ----
//
// Of what was written and not synced nothing is left in this model. These take the place of the C
// library's functions in this program; a rename is the moment of the power cut.
namespace {

struct Disk {
  bool watching = false;
  std::map<ino_t, bool> synced;  // files written to since watching began
  int lost = 0;                  // files that got their name before their content was safe
} disk;

ino_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

template <class Function>
Function next_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next_function<ssize_t (*)(int, const void*, size_t)>("write");
  if (disk.watching) disk.synced[inode_of(fd)] = false;
  return real(fd, data, bytes);
}

extern "C" int fsync(int fd) {
  static const auto real = next_function<int (*)(int)>("fsync");
  if (disk.watching) disk.synced[inode_of(fd)] = true;
  return real(fd);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = next_function<int (*)(const char*, const char*)>("rename");
  struct stat info {};
  if (disk.watching && ::stat(from, &info) == 0 && !disk.synced[info.st_ino]) ++disk.lost;
  return real(from, to);
}

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() : folder_(testing::TempDir() + fmt::format("files-{}", ::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string refusal(const std::string& name) {
    const Result<std::string> text = files_.read(name.starts_with('/') ? name : path(name));
    return text ? "read" : text.error().message;
  }
  int mode(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(::stat(path(name).c_str(), &info), 0) << name;
    return static_cast<int>(info.st_mode & 0777);
  }

  RealFiles files_;
  std::string folder_;
};

TEST_F(FilesTest, OnlyRegularFilesAreRead) {
  ::alarm(20);  // a FIFO without a writer would be waited for
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(refusal("fifo"), "is no regular file; `-` reads standard input");
  ::alarm(0);
  EXPECT_EQ(refusal("/dev/zero"), "is no regular file; `-` reads standard input");
  EXPECT_EQ(refusal(folder_), "is a directory, not a file");
}

TEST_F(FilesTest, AnOpenPipeIsRead) {  // what a shell makes of <(...)
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(files_.read(fmt::format("/dev/fd/{}", ends[0])).value_or(""), "text");
  ::close(ends[0]);
}

TEST_F(FilesTest, LargeFilesAreRefusedUnread) {
  ASSERT_TRUE(files_.write_atomic(path("large"), ""));
  std::filesystem::resize_file(path("large"), kMaxFileBytes + 1);
  const int fd = ::open(path("large").c_str(), O_RDONLY);
  ASSERT_EQ(::dup2(fd, STDIN_FILENO), STDIN_FILENO);
  EXPECT_EQ(refusal("large"), "is too large: more than 512 MiB are not read");
  EXPECT_FALSE(read_standard_input());
  EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), 0) << "it was read before it was refused";
  ::close(fd);
}

TEST_F(FilesTest, StateHasModesOfItsOwn) {
  const mode_t before = ::umask(0);
  EXPECT_TRUE(files_.make_directories(path("state/deeper")));
  EXPECT_TRUE(files_.write_atomic(path("state/whole"), "x"));
  EXPECT_TRUE(files_.append(path("state/log"), "x"));
  EXPECT_TRUE(files_.lock(path("state/lock")));
  EXPECT_TRUE(write_output(path("output"), "x"));
  ::umask(077);
  EXPECT_TRUE(files_.write_atomic(path("state/private"), "x"));
  ::umask(before);
  EXPECT_EQ(mode("state"), 0755);
  EXPECT_EQ(mode("state/deeper"), 0755);
  EXPECT_EQ(mode("state/whole"), 0644);
  EXPECT_EQ(mode("state/log"), 0644);
  EXPECT_EQ(mode("state/lock"), 0600);
  EXPECT_EQ(mode("output"), 0666) << "people's own umask";
  EXPECT_EQ(mode("state/private"), 0600);
}

TEST_F(FilesTest, WhatKillsLeftGoesAtTheNextWrite) {
  for (const char* name : {"a.partita-1-0", "a.partita-77-3", "a.lives", "b.partita-1-0"})
    ASSERT_TRUE(files_.append(path(name), "half"));
  ASSERT_TRUE(files_.append(path("a.partita-2-0"), "half"));
  const int alive = ::open(path("a.partita-2-0").c_str(), O_RDONLY);  // as its writer does
  ASSERT_EQ(::flock(alive, LOCK_EX), 0);
  ASSERT_TRUE(files_.write_atomic(path("a"), "whole"));
  EXPECT_THAT(files_.list(folder_).value(),
              ElementsAre("a", "a.lives", "a.partita-2-0", "b.partita-1-0"));
  ::close(alive);
  ASSERT_TRUE(files_.write_atomic(path("a"), "again"));
  EXPECT_THAT(files_.list(folder_).value(), ElementsAre("a", "a.lives", "b.partita-1-0"));
  EXPECT_EQ(files_.read(path("a")).value_or(""), "again");
}

TEST_F(FilesTest, ALockSaysWhoHoldsIt) {
  const Result<FileLock> first = files_.lock(path("lock"));
  ASSERT_TRUE(first);
  const Result<FileLock> second = files_.lock(path("lock"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::in_use);
  EXPECT_THAT(second.error().message, HasSubstr(fmt::format("pid {} (", ::getpid())));
  EXPECT_THAT(second.error().message, HasSubstr("base_test"));
  EXPECT_THAT(second.error().message,
              testing::ContainsRegex(
                  "holds the lock since [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"));
}

TEST_F(FilesTest, APowerCutLeavesTheOldOrTheNew) {
  ASSERT_TRUE(files_.write_atomic(path("a"), "old"));
  disk = {.watching = true, .synced = {}, .lost = 0};
  EXPECT_TRUE(files_.write_atomic(path("a"), "new"));
  EXPECT_TRUE(write_output(path("b"), "new"));
  disk.watching = false;
  EXPECT_FALSE(disk.synced.empty()) << "the model sees nothing of what is written";
  EXPECT_EQ(disk.lost, 0);
}

// A child that was being started when its parent was killed has the parent's descriptors.
TEST_F(FilesTest, ALockThatIsLeftToAChildForAMomentIsWaitedFor) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto lock = files_.lock(path("lock"));
    if (::fork() == 0) {
      ::usleep(300'000);  // becomes another program then
      ::_exit(0);
    }
    static_cast<void>(::write(told[1], lock ? "y" : "n", 1) == 1);
    ::raise(SIGKILL);
  }
  char taken = 0;
  ASSERT_EQ(::read(told[0], &taken, 1), 1);
  ASSERT_EQ(taken, 'y');
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(files_.lock(path("lock")));
  ::close(told[0]);
  ::close(told[1]);
}

TEST_F(FilesTest, WhatIsDamagedIsSetAsideAndTheOldestGoes) {
  for (int n = 1; n <= kDamagedKept + 2; ++n) {
    ASSERT_TRUE(files_.write_atomic(path("a"), fmt::format("{}", n)));
    ASSERT_TRUE(files_.write_atomic(path("a-wal"), "w"));
    EXPECT_EQ(set_aside(files_, path("a"), {"-wal", "-shm"}).value_or(""),
              path(fmt::format("a.damaged-{}", n)));
  }
  EXPECT_THAT(files_.list(folder_).value(),
              ElementsAre("a.damaged-3", "a.damaged-3-wal", "a.damaged-4", "a.damaged-4-wal",
                          "a.damaged-5", "a.damaged-5-wal"));
  EXPECT_EQ(files_.read(path("a.damaged-5")).value_or(""), "5");
  EXPECT_FALSE(set_aside(files_, path("a")));  // there is none
}

TEST(Seal, NoBitMayChange) {
  const std::string json = "{\n  \"rate\": 47,\n  \"name\": \"a\"\n}\n", text = sealed(json);
  EXPECT_EQ(unsealed("f", text).value_or(""), json);
  EXPECT_EQ(unsealed("f", json).value_or(""), json);  // from before there were seals
  for (std::size_t at = 0; at < json.size() - 3; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(unsealed("f", damaged)) << at;
    }
}

}  // namespace
}  // namespace partita
