// What a queue keeps, in one SQLite file (WAL, synchronous = FULL): once keep() returns it is on
// the disk. A full disk is an error with a sentence, and leaves the file as it was. One process at
// a time writes; the queue's host has a lock for that.
#pragma once

#include <memory>
#include <string>

#include "queue/store.h"

namespace partita::queue {

class SqliteStore final : public QueueStore {
 public:
  // Creates the file where there is none. bad_input: no queue of Partita's, damaged, a later one's.
  static Result<std::unique_ptr<SqliteStore>> open(const std::string& path);
  ~SqliteStore() override;

  Result<Loaded> load() override;
  Result<void> keep(const Keep& changes) override;
  Result<std::vector<Run>> runs(long task) override;
  Result<std::optional<Task>> task(long id) override;
  Result<std::vector<Task>> ended(const Past& past) override;
  // No more than that; 0: no limit. As a full disk refuses, for tests.
  Result<void> limit_pages(long pages);

 private:
  struct Database;
  explicit SqliteStore(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace partita::queue
