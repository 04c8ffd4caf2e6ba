// A disk that fills up at random points, as a layer below SQLite that counts what files may still
// grow: an Error, what was kept stays whole, and it goes on when there is room again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstring>
#include <memory>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "history/store/store.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::history {
namespace {

// The real file system with `left` bytes of room for files to grow into.
class SmallDisk {
 public:
  static SmallDisk& instance() {
    static SmallDisk disk;
    return disk;
  }
  std::int64_t left = 0;

 private:
  struct File {
    sqlite3_file base;
    sqlite3_io_methods methods;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  SmallDisk() {
    real_ = sqlite3_vfs_find(nullptr);
    vfs_ = *real_;
    vfs_.zName = "small";
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.xOpen = &open;
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~SmallDisk() { sqlite3_vfs_unregister(&vfs_); }

  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    std::memset(file, 0, sizeof(File));
    File& mine = of(file);
    const int status = instance().real_->xOpen(instance().real_, name, mine.real(), flags, out);
    if (mine.real()->pMethods == nullptr) return status;
    sqlite3_io_methods& m = mine.methods;
    m.iVersion = 2;
    m.xClose = [](sqlite3_file* f) { return of(f).real()->pMethods->xClose(of(f).real()); };
    m.xRead = [](sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
      return of(f).real()->pMethods->xRead(of(f).real(), to, n, at);
    };
    m.xWrite = &write;
    m.xTruncate = &truncate;
    m.xSync = [](sqlite3_file* f, int how) {
      return of(f).real()->pMethods->xSync(of(f).real(), how);
    };
    m.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
      return of(f).real()->pMethods->xFileSize(of(f).real(), size);
    };
    m.xLock = [](sqlite3_file* f, int how) {
      return of(f).real()->pMethods->xLock(of(f).real(), how);
    };
    m.xUnlock = [](sqlite3_file* f, int how) {
      return of(f).real()->pMethods->xUnlock(of(f).real(), how);
    };
    m.xCheckReservedLock = [](sqlite3_file* f, int* result) {
      return of(f).real()->pMethods->xCheckReservedLock(of(f).real(), result);
    };
    m.xFileControl = [](sqlite3_file* f, int op, void* argument) {
      return of(f).real()->pMethods->xFileControl(of(f).real(), op, argument);
    };
    m.xSectorSize = [](sqlite3_file* f) {
      return of(f).real()->pMethods->xSectorSize(of(f).real());
    };
    m.xDeviceCharacteristics = [](sqlite3_file* f) {
      return of(f).real()->pMethods->xDeviceCharacteristics(of(f).real());
    };
    m.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** to) {
      return of(f).real()->pMethods->xShmMap(of(f).real(), page, size, extend, to);
    };
    m.xShmLock = [](sqlite3_file* f, int offset, int n, int how) {
      return of(f).real()->pMethods->xShmLock(of(f).real(), offset, n, how);
    };
    m.xShmBarrier = [](sqlite3_file* f) { of(f).real()->pMethods->xShmBarrier(of(f).real()); };
    m.xShmUnmap = [](sqlite3_file* f, int remove) {
      return of(f).real()->pMethods->xShmUnmap(of(f).real(), remove);
    };
    mine.base.pMethods = &m;
    return status;
  }
  static std::int64_t size_of(File& file) {
    sqlite3_int64 size = 0;
    file.real()->pMethods->xFileSize(file.real(), &size);
    return size;
  }
  // Writes what there is room for, as a disk does.
  static int write(sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
    File& file = of(f);
    const std::int64_t grows = std::max<std::int64_t>(at + n - size_of(file), 0);
    const std::int64_t fits = std::min(grows, instance().left);
    instance().left -= fits;
    const int some = n - static_cast<int>(grows - fits);
    if (some > 0) {
      const int status = file.real()->pMethods->xWrite(file.real(), from, some, at);
      if (status != SQLITE_OK) return status;
    }
    return some == n ? SQLITE_OK : SQLITE_FULL;
  }
  static int truncate(sqlite3_file* f, sqlite3_int64 size) {
    instance().left += std::max<std::int64_t>(size_of(of(f)) - size, 0);
    return of(f).real()->pMethods->xTruncate(of(f).real(), size);
  }

  sqlite3_vfs* real_;
  sqlite3_vfs vfs_;
};

TEST(FullDisk, IsAnErrorLeavesTheFileWholeAndGoesOnWhenThereIsRoom) {
  SmallDisk& disk = SmallDisk::instance();
  Rng rng(5);
  long refusals = 0, early = 0;
  for (int round = 0; round < test_rounds(30); ++round) {
    const TemporaryFolder folder;
    disk.left = static_cast<std::int64_t>(rng.below(round % 3 == 0 ? 80'000 : 2'000'000));
    std::vector<Event> kept;
    auto store = Store::open(folder.file(), Access::write);
    if (!store) {
      ++early;
      EXPECT_EQ(store.error().code, ErrorCode::environment) << to_string(store.error());
      disk.left = 10'000'000;
      store = Store::open(folder.file(), Access::write);
      ASSERT_TRUE(store) << to_string(store.error());
    }
    for (int n = 0; n < 60; ++n) {
      Event event{.time_ms = n,
                  .change = n,
                  .user = "x",
                  .documents = {{"plan", std::string(rng.below(60'000), 'p')}}};
      const auto id = store->append(event);
      if (id) {
        event.id = *id;
        kept.insert(kept.begin(), event);
      } else {
        ++refusals;
        ASSERT_EQ(id.error().code, ErrorCode::environment) << to_string(id.error());
        ASSERT_EQ(store->events({.most = kMaxRows}).value(), kept);
        if (rng.below(3) == 0) store = Store::open(folder.file(), Access::write);
        if (!store) store = (disk.left += 100'000, Store::open(folder.file(), Access::write));
        ASSERT_TRUE(store) << to_string(store.error());
        if (rng.below(2) == 0) disk.left += static_cast<std::int64_t>(rng.below(300'000));
      }
    }
    disk.left = 100'000'000;
    EXPECT_EQ(store->events({.most = kMaxRows}).value(), kept);
    EXPECT_TRUE(store->append({.user = "after"}));
    EXPECT_TRUE(store->measure({{1, "watts", "", 1}}));
    EXPECT_TRUE(store->tidy(1'000));
    const auto reader = Store::open(folder.file(), Access::read);
    EXPECT_EQ(reader->events({.most = kMaxRows})->size(), kept.size() + 1);
  }
  EXPECT_GT(refusals, 0);
  if (test_rounds(30) == 30) {
    EXPECT_GT(early, 0);
  }
}

}  // namespace
}  // namespace partita::history
