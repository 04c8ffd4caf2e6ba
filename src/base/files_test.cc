#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/input_output.h"

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

}  // namespace
}  // namespace partita
