// The supervisor's state file on a disk that fails, and that others write to.
#include "act/workers_file.h"

#include <gmock/gmock.h>

namespace partita::actuate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kFileSecond = 1'000'000'000;

class FullDisk final : public MemoryFiles {
 public:
  std::string full;  // a path that nothing can be written to
  int writes = 0;

  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (path == full) return environment_error(path, "no space left");
    ++writes;
    return MemoryFiles::write_atomic(path, text);
  }
};

WorkersState revision(long number) {
  WorkersState state;
  state.revision = number;
  state.supervisor = {1, "1@boot"};
  return state;
}

struct WorkersFileTest : testing::Test {
  FullDisk disk;
  std::vector<std::string> said;
  WorkersFile file{disk, "/s/w", [this](const std::string& line) { said.push_back(line); }};
  long written(const std::string& path = "/s/w") {
    return parse_workers(path, disk.read(path).value_or("")).value_or(WorkersState{}).revision;
  }
};

TEST_F(WorkersFileTest, WhatIsNewIsWrittenTwice) {
  file.save(revision(1));
  EXPECT_EQ(written(), 1);
  EXPECT_EQ(written("/s/w.copy"), 1);
  file.save(revision(1));
  EXPECT_EQ(disk.writes, 2) << "nothing new";
  file.save(revision(2));
  EXPECT_EQ(written(), 2);
  EXPECT_THAT(said, IsEmpty());
}

// Said once, and tried again until it is there: the copy, too.
TEST_F(WorkersFileTest, AFullDiskIsSaidOnce) {
  for (const char* full : {"/s/w", "/s/w.copy"}) {
    said.clear();
    disk.full = full;
    for (long number = 1; number < 4; ++number) file.save(revision(number));
    EXPECT_THAT(said, ElementsAre(HasSubstr("cannot save the state: " + std::string(full))));
    disk.full = "";
    file.save(revision(3));
    EXPECT_EQ(written(full), 3);
    disk.full = full;
    file.save(revision(4));
    EXPECT_EQ(said.size(), 2u) << "it was well in between";
    disk.full = "";
    file.save(revision(5));
  }
}

// Looked at once a second, to the moment.
TEST_F(WorkersFileTest, WhatOthersDoIsMadeGood) {
  file.check(0);  // there is nothing yet
  file.save(revision(1));
  file.check(10 * kFileSecond);
  ASSERT_TRUE(disk.write_atomic("/s/w", "rubbish"));
  file.check(11 * kFileSecond - 1);
  EXPECT_THAT(said, IsEmpty());
  file.check(11 * kFileSecond);
  EXPECT_THAT(said, ElementsAre("/s/w: is not as it was written; writing it again"));
  file.save(revision(1));
  EXPECT_EQ(written(), 1);
  ASSERT_TRUE(disk.remove("/s/w"));
  file.check(12 * kFileSecond);
  file.save(revision(1));
  EXPECT_EQ(written(), 1);
}

TEST_F(WorkersFileTest, ADamagedFileIsSetAsideAndItsCopyRead) {
  file.save(revision(7));
  ASSERT_TRUE(disk.write_atomic("/s/w", "rubbish"));
  WorkersFile next{disk, "/s/w", [this](const std::string& line) { said.push_back(line); }};
  EXPECT_EQ(next.recall().value().revision, 7);
  EXPECT_EQ(disk.read("/s/w.damaged-1").value_or(""), "rubbish");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("it is now /s/w.damaged-1; workers that run are ended"));
  WorkersFile empty{disk, "/t/w", {}};
  EXPECT_EQ(empty.recall().value(), WorkersState{});
  ASSERT_TRUE(disk.write_atomic("/t/w", "rubbish"));
  EXPECT_EQ(empty.recall().value(), WorkersState{}) << "without a copy there are none";
}

}  // namespace
}  // namespace partita::actuate
