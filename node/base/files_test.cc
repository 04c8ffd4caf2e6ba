#include "base/files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "base/input_output.h"
#include "base/testing/test_without_input.h"

// ---- what a power cut leaves, and what a bad disk does ----
//
// Of what was written and not synced nothing is left in this model. These take the place of the C
// library's functions in this program; a rename is the moment of the power cut.
namespace {

struct Disk {
  bool watching = false;
  std::map<ino_t, bool> synced = {};  // files written to since watching began
  std::set<ino_t> new_names = {};     // folders with a name that a power cut would take back
  int lost = 0;                       // files that got their name before their content was safe
  // What goes wrong while it watches.
  int write_error = 0, sync_error = 0;  // errno of every call; 0: none
  std::size_t most = SIZE_MAX;          // bytes that one call reads or writes
  int interrupts = 0;                   // calls that a signal interrupts
  int reads = 0, writes = 0;            // calls that did something
} disk;

ino_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

ino_t folder_of(const char* path) {
  struct stat info {};
  const std::string folder = std::filesystem::path(path).parent_path();
  return ::stat(folder.c_str(), &info) == 0 ? info.st_ino : 0;
}

template <class Function>
Function next_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

bool fails(int error) {
  const bool interrupted = disk.watching && disk.interrupts > 0;
  if (interrupted) --disk.interrupts;
  if (!interrupted && (!disk.watching || error == 0)) return false;  // what errno was stays
  errno = interrupted ? EINTR : error;
  return true;
}

int sync_with(const char* name, int fd) {
  if (disk.watching && disk.sync_error != 0) return errno = disk.sync_error, -1;
  if (disk.watching) disk.synced[inode_of(fd)] = true;
  if (disk.watching) disk.new_names.erase(inode_of(fd));
  return next_function<int (*)(int)>(name)(fd);
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next_function<ssize_t (*)(int, const void*, size_t)>("write");
  if (fails(disk.write_error)) return -1;
  if (!disk.watching) return real(fd, data, bytes);
  disk.synced[inode_of(fd)] = false;
  ++disk.writes;
  return real(fd, data, std::min(bytes, disk.most));
}

extern "C" ssize_t read(int fd, void* data, size_t bytes) {
  static const auto real = next_function<ssize_t (*)(int, void*, size_t)>("read");
  if (fails(0)) return -1;
  if (disk.watching) ++disk.reads;
  return real(fd, data, disk.watching ? std::min(bytes, disk.most) : bytes);
}

extern "C" int fsync(int fd) { return sync_with("fsync", fd); }
extern "C" int fdatasync(int fd) { return sync_with("fdatasync", fd); }

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = next_function<int (*)(const char*, const char*)>("rename");
  struct stat info {};
  if (disk.watching && ::stat(from, &info) == 0 && !disk.synced[info.st_ino]) ++disk.lost;
  if (disk.watching) disk.new_names.insert(folder_of(to));
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
  std::string folder_, said_;
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

// What standard output is while it lives: a file.
class OutputTo {
 public:
  explicit OutputTo(const std::string& path) : kept_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::close(file);
  }
  ~OutputTo() {
    std::fflush(stdout);
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
  }

 private:
  int kept_;
};

TEST_F(FilesTest, StandardOutputIsInOrderAndMayBeFull) {
  Result<void> written, refused;
  {
    const OutputTo output(path("out"));
    std::fputs("said before, ", stdout);
    written = write_output("-", "written");
  }
  {
    const OutputTo output("/dev/full");
    refused = write_output("-", "written");
  }
  EXPECT_TRUE(written);
  EXPECT_EQ(files_.read(path("out")).value_or(""), "said before, written");
  ASSERT_FALSE(refused);
  EXPECT_EQ(to_string(refused.error()), "standard output: cannot write: No space left on device");
}

// Another of our number, in another container, writes the same file: each has a name of its own.
TEST_F(FilesTest, ATemporaryNameThatIsTakenIsLeftToItsWriter) {
  const std::string taken = path(fmt::format("a.partita-{}-0", ::getpid()));
  ASSERT_TRUE(files_.append(taken, "half"));
  const int alive = ::open(taken.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(alive, LOCK_EX), 0);
  ASSERT_TRUE(files_.write_atomic(path("a"), "whole"));
  EXPECT_EQ(files_.read(path("a")).value_or(""), "whole");
  EXPECT_EQ(files_.read(taken).value_or(""), "half");
  ::close(alive);
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
  std::ofstream{path("lock")} << "4711 " << std::string(400, 'x');  // the one before
  const Result<FileLock> first = files_.lock(path("lock"));
  ASSERT_TRUE(first);
  const Result<FileLock> second = files_.lock(path("lock"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::in_use);
  EXPECT_THAT(second.error().message, HasSubstr(fmt::format("pid {} (", ::getpid())));
  const std::string text = files_.read(path("lock")).value_or("");
  const std::string holder = text.substr(0, text.find('\n'));
  std::ifstream file("/proc/self/cmdline");
  std::string command{std::istreambuf_iterator<char>(file), {}};
  command.pop_back();
  std::ranges::replace(command, '\0', ' ');
  EXPECT_EQ(holder, fmt::format("{} {}", ::getpid(), command.substr(0, 255)));
  EXPECT_THAT(second.error().message, HasSubstr(holder.substr(holder.find(' ') + 1)));
  EXPECT_THAT(second.error().message,
              testing::ContainsRegex(
                  "holds the lock since [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"));
}

// Watches as long as it lives.
struct Watched {
  explicit Watched(Disk how = {}) {
    disk = std::move(how);
    disk.watching = true;
  }
  ~Watched() { disk.watching = false; }
};

TEST_F(FilesTest, APowerCutLeavesTheOldOrTheNew) {
  ASSERT_TRUE(files_.write_atomic(path("a"), "old"));
  {
    const Watched watched;
    EXPECT_TRUE(files_.write_atomic(path("a"), "new"));
    EXPECT_TRUE(write_output(path("b"), "new"));
  }
  EXPECT_FALSE(disk.synced.empty()) << "the model sees nothing of what is written";
  EXPECT_EQ(disk.lost, 0);
  EXPECT_EQ(disk.new_names.size(), 0u) << "a power cut takes the name back";
}

// What a reader sees is whole, and no disk was waited for.
TEST_F(FilesTest, UnsyncedFilesAreReplacedWhole) {
  const Watched watched;
  for (const char* text : {"old", "new"}) EXPECT_TRUE(files_.write_unsynced(path("a"), text));
  EXPECT_TRUE(std::ranges::none_of(disk.synced, [](const auto& one) { return one.second; }));
  EXPECT_EQ(*files_.read(path("a")), "new");
  EXPECT_EQ(files_.list(folder_)->size(), 1u);
  EXPECT_EQ(mode("a"), 0644);
}

// One sync for all that was added since the last; a new file's name is synced at once.
TEST_F(FilesTest, WhatIsAppendedUnsyncedIsSafeWithTheNextAppend) {
  for (const char* text : {"first", "second", "third"}) {
    const Watched watched;
    const bool last = std::string_view(text) == "third";
    EXPECT_TRUE(last ? files_.append(path("log"), text)
                     : files_.append_unsynced(path("log"), text));
    const bool synced =
        std::ranges::all_of(disk.synced, [](const auto& one) { return one.second; });
    EXPECT_EQ(synced, std::string_view(text) != "second");
  }
  EXPECT_EQ(*files_.read(path("log")), "firstsecondthird");
}

// What append() has taken is safe when it returns, the new file's name too.
TEST_F(FilesTest, WhatIsAppendedIsSafe) {
  for (const char* text : {"first", "second"}) {
    const Watched watched;
    EXPECT_TRUE(files_.append(path("log"), text));
    for (const auto& [inode, synced] : disk.synced) EXPECT_TRUE(synced) << text;
    const bool folder_synced = disk.synced.contains(folder_of(path("log").c_str()));
    EXPECT_EQ(folder_synced, std::string_view(text) == "first");
  }
  const Watched watched;
  EXPECT_TRUE(files_.rename(path("log"), path("renamed")));
  EXPECT_EQ(disk.new_names.size(), 0u);
}

TEST_F(FilesTest, ADiskThatRefusesLeavesTheOld) {
  ASSERT_TRUE(files_.write_atomic(path("a"), "old"));
  ASSERT_TRUE(files_.append(path("log"), "old"));
  for (const Disk& bad : {Disk{.write_error = ENOSPC}, Disk{.sync_error = EIO}}) {
    const std::string why = bad.sync_error != 0 ? "Input/output error" : "No space left on device";
    const Watched watched(bad);
    const auto written = files_.write_atomic(path("a"), "new");
    ASSERT_FALSE(written);
    EXPECT_EQ(to_string(written.error()), path("a") + ": cannot write: " + why);
    const auto appended = files_.append(path("log"), "new");
    ASSERT_FALSE(appended);
    EXPECT_EQ(to_string(appended.error()), path("log") + ": cannot append: " + why);
    EXPECT_FALSE(write_output(path("out"), "new"));
    disk.watching = false;
    EXPECT_EQ(files_.read(path("a")).value_or(""), "old");
    EXPECT_THAT(files_.list(folder_).value(), ElementsAre("a", "log")) << "half a file was left";
  }
  {
    const Watched watched({.sync_error = EIO});
    EXPECT_EQ(to_string(files_.rename(path("a"), path("b")).error()),
              path("b") + ": cannot sync the directory: Input/output error");
  }
  EXPECT_THAT(to_string(files_.rename(path("none"), path("b")).error()),
              HasSubstr("cannot rename: No such file"));
}

// A disk may take less than it is given, and a signal may come at any time.
// Of a text for which there is no room nothing is left.
TEST_F(FilesTest, WhatIsAppendedIsThereAsAWholeOrNotAtAll) {
  ASSERT_TRUE(files_.append(path("log"), "one\n"));
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result<void> no = files_.append(path("log"), "a second line\n");
  const Result<void> yes = files_.append_unsynced(path("log"), "three\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_FALSE(no);
  EXPECT_TRUE(yes);
  EXPECT_EQ(files_.read(path("log")).value_or(""), "one\nthree\n");
}

TEST_F(FilesTest, ShortAndInterruptedCallsAreGoneOnWith) {
  const std::string text = "what is written in pieces is read in pieces";
  const Watched watched({.most = 7, .interrupts = 3});
  EXPECT_TRUE(files_.write_atomic(path("a"), text));
  EXPECT_GE(disk.writes, 7);
  disk.interrupts = 3;
  EXPECT_TRUE(files_.append(path("a"), text));
  disk.interrupts = 3;
  EXPECT_EQ(files_.read(path("a")).value_or(""), text + text);
  EXPECT_GE(disk.reads, 13);
}

TEST_F(FilesTest, ANameThatLeadsNowhereIsThere) {
  std::filesystem::create_symlink(path("nowhere"), path("link"));
  EXPECT_TRUE(files_.exists(path("link")));
  EXPECT_FALSE(files_.exists(path("nowhere")));
  EXPECT_FALSE(files_.read(path("link")));
  ASSERT_TRUE(files_.remove(path("link")));
  EXPECT_FALSE(files_.exists(path("link")));
}

TEST_F(FilesTest, StandardInputIsReadOnce) {
  ASSERT_TRUE(files_.write_atomic(path("in"), "typed"));
  const int fd = ::open(path("in").c_str(), O_RDONLY);
  ASSERT_EQ(::dup2(fd, STDIN_FILENO), STDIN_FILENO);
  ::close(fd);
  EXPECT_EQ(files_.read("-").value_or(""), "typed");
  EXPECT_EQ(to_string(files_.read("/dev/stdin").error()),
            "/dev/stdin: another input was read from standard input already");
}

// Without a standard input the next file is number 0, which is a file as any other.
TEST_F(FilesTest, NumberNoughtIsAFile) {
  ASSERT_TRUE(files_.append(path("a.partita-1-0"), "of a writer that was killed"));
  ASSERT_TRUE(files_.append(path(fmt::format("b.partita-{}-0", ::getpid())), "of another one"));
  const int alive = ::open(path(fmt::format("b.partita-{}-0", ::getpid())).c_str(), O_RDONLY);
  ASSERT_EQ(::flock(alive, LOCK_EX), 0);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const int reader = ::open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  std::string said;
  {
    const WithoutInput number_nought_is_free;
    for (const char* name : {"a", "b"}) EXPECT_TRUE(files_.write_atomic(path(name), "whole"));
    EXPECT_TRUE(files_.append(path("log"), "text"));
    EXPECT_TRUE(files_.append_unsynced(path("log"), " more"));
    EXPECT_TRUE(files_.rename(path("log"), path("renamed")));
    EXPECT_TRUE(write_output(path("fifo"), "text"));
    said = files_.read(path("renamed")).value_or("");
    const auto lock = files_.lock(path("lock"));
    EXPECT_TRUE(lock);
    EXPECT_EQ(files_.lock(path("lock")).error().code, ErrorCode::in_use);
  }
  ::close(alive);
  char piped[8];
  EXPECT_EQ(::read(reader, piped, sizeof piped), 4);
  ::close(reader);
  EXPECT_EQ(said, "text more");
  EXPECT_FALSE(files_.exists(path("a.partita-1-0")));
  EXPECT_EQ(files_.read(path("b")).value_or(""), "whole");
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

// The same of a child that lives on: it is waited for, but not for ever, and said who it is.
TEST_F(FilesTest, ALockThatIsLeftForGoodIsGivenUp) {
  const int fd = ::open(path("lock").c_str(), O_RDWR | O_CREAT, 0600);
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const auto seconds = [&] {
    const auto begun = std::chrono::steady_clock::now();
    const auto lock = files_.lock(path("lock"));
    EXPECT_EQ(lock.error().code, ErrorCode::in_use);
    said_ = lock.error().message;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  EXPECT_LT(seconds(), 1.0);
  EXPECT_EQ(said_, "another process holds the lock") << "it has not said yet who it is";
  const std::string name = fmt::format("{} partita apply", ended);
  ASSERT_EQ(::pwrite(fd, name.data(), name.size(), 0), static_cast<ssize_t>(name.size()));
  EXPECT_GE(seconds(), 1.9);
  EXPECT_THAT(said_, HasSubstr(fmt::format("a process that pid {} (partita apply) started holds "
                                           "the lock since 20",
                                           ended)));
  ::close(fd);
  EXPECT_TRUE(files_.lock(path("lock")));
}

TEST_F(FilesTest, DamagedFilesAreCountedAsNumbers) {
  for (const char* name : {"a", "a.damaged-9", "a.damaged-10", "a.damaged-x", "a.damaged-2"})
    ASSERT_TRUE(files_.write_atomic(path(name), name));
  EXPECT_EQ(set_aside(files_, path("a")).value_or(""), path("a.damaged-11"));
  EXPECT_THAT(files_.list(folder_).value(),
              ElementsAre("a.damaged-10", "a.damaged-11", "a.damaged-9", "a.damaged-x"));
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
  EXPECT_NE(text.find("6aaea9b8"), text.npos) << "zlib's crc32 of it";
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
