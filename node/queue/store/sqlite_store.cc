#include "queue/store/sqlite_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "history/store/sql.h"
#include "queue/task_forms.h"

namespace partita::queue {
namespace {

using history::Sql;
using history::SqlFile;
using history::Transaction;

constexpr std::int64_t kApplication = 0x50617175;  // "Paqu"
constexpr std::int64_t kVersion = 1;
constexpr std::uintmax_t kLeastPage = 512;

constexpr const char* kTables =
    "CREATE TABLE tasks(id INTEGER PRIMARY KEY, over INTEGER NOT NULL, record TEXT NOT NULL);"
    "CREATE INDEX open_tasks ON tasks(id) WHERE over = 0;"
    "CREATE TABLE runs(task INTEGER NOT NULL, attempt INTEGER NOT NULL, record TEXT NOT NULL,"
    "  PRIMARY KEY(task, attempt)) WITHOUT ROWID;"
    "CREATE TABLE times(user TEXT NOT NULL, name TEXT NOT NULL, model TEXT NOT NULL,"
    "  gpcs INTEGER NOT NULL, runs INTEGER NOT NULL, mean_s REAL NOT NULL, squares REAL NOT NULL,"
    "  PRIMARY KEY(user, name, model, gpcs)) WITHOUT ROWID;"
    "CREATE TABLE usage(user TEXT PRIMARY KEY, slice_s REAL NOT NULL, at INTEGER NOT NULL)"
    "  WITHOUT ROWID;";

Result<void> bring_up(const SqlFile& file) {
  const auto application = TRY(file.ask("PRAGMA application_id"));
  const auto version = TRY(file.ask("PRAGMA user_version"));
  const auto tables = TRY(file.ask("SELECT count(*) FROM sqlite_master"));
  const bool fresh = application == 0 && version == 0 && tables == 0;
  if (!fresh && application != kApplication)
    return bad_input(file.path(), "is a SQLite file, but no queue of Partita's");
  if (version > kVersion) return bad_input(file.path(), "is of a later Partita");
  for (const char* setting :
       {"PRAGMA trusted_schema = OFF", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"}) {
    if (auto set = file.run(setting); !set) return set;
  }
  if (!fresh) return {};
  Transaction transaction(file);
  TRY(transaction.begin());
  TRY(file.run(kTables));
  const std::string marks =
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, kVersion);
  TRY(file.run(marks.c_str()));
  return transaction.commit();
}

Result<void> write(const SqlFile& file, const Keep& changes) {
  Sql task(file, "INSERT OR REPLACE INTO tasks(id, over, record) VALUES(?1, ?2, ?3)");
  for (const Task& one : changes.tasks) {
    const std::int64_t over = is_over(one.state) ? 1 : 0;
    if (auto done = task.with(std::int64_t{one.id}, over, task_line(one)).done(); !done)
      return done;
  }
  Sql run(file, "INSERT OR REPLACE INTO runs(task, attempt, record) VALUES(?1, ?2, ?3)");
  for (const Run& one : changes.runs) {
    const std::int64_t attempt = one.attempt;
    if (auto done = run.with(std::int64_t{one.task}, attempt, run_line(one)).done(); !done)
      return done;
  }
  Sql time(file, "INSERT OR REPLACE INTO times VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  for (const auto& [key, stats] : changes.times) {
    const std::int64_t gpcs = key.gpcs, runs = stats.runs;
    if (auto done =
            time.with(key.user, key.name, key.model, gpcs, runs, stats.mean_s, stats.squares)
                .done();
        !done)
      return done;
  }
  Sql usage(file, "INSERT OR REPLACE INTO usage VALUES(?1, ?2, ?3)");
  for (const auto& [user, used] : changes.usage) {
    if (auto done = usage.with(user, used.slice_s, std::int64_t{used.at}).done(); !done)
      return done;
  }
  return {};
}

// The tasks of a query with whole numbers.
template <class... Values>
Result<std::vector<Task>> read_tasks(const SqlFile& file, const char* query, Values... values) {
  Sql rows(file, query);
  rows.with(std::int64_t{values}...);
  std::vector<Task> tasks;
  while (rows.row()) {
    auto task = TRY(parse_task(file.path(), rows.text(0)));
    tasks.push_back(std::move(task));
  }
  TRY(rows.done());
  return tasks;
}

Result<void> load_numbers(const SqlFile& file, Loaded& loaded) {
  Sql times(file, "SELECT user, name, model, gpcs, runs, mean_s, squares FROM times");
  while (times.row()) {
    const TimeKey key{times.text(0), times.text(1), times.text(2),
                      static_cast<int>(times.whole(3))};
    loaded.times[key] = {times.whole(4), times.number(5), times.number(6)};
  }
  TRY(times.done());
  Sql usage(file, "SELECT user, slice_s, at FROM usage");
  while (usage.row()) loaded.usage[usage.text(0)] = {usage.number(1), usage.whole(2)};
  return usage.done();
}

}  // namespace

struct SqliteStore::Database {
  SqlFile file;
};

SqliteStore::SqliteStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
SqliteStore::~SqliteStore() = default;

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& path) {
  // Less than a page is nothing to SQLite, which would begin anew and forget the tasks. A last page
  // that is not whole, as a full disk leaves one, it mends itself.
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(path, none);
  if (!none && bytes > 0 && bytes < kLeastPage)
    return bad_input(path, "was cut short: it is no whole SQLite file");
  auto file = TRY(SqlFile::open(path, true));
  TRY(bring_up(file));
  return std::unique_ptr<SqliteStore>(
      new SqliteStore(std::make_unique<Database>(Database{std::move(file)})));
}

Result<Loaded> SqliteStore::load() {
  const SqlFile& file = database_->file;
  Loaded loaded;
  loaded.last_id = TRY(file.ask("SELECT coalesce(max(id), 0) FROM tasks"));
  // Said as the index's own condition is, so that SQLite reads those alone.
  loaded.tasks =
      TRY(read_tasks(file, "SELECT record FROM tasks WHERE over = 0 AND id > ?1 ORDER BY id", 0));
  loaded.recent = TRY(ended({kRecentTasks}));
  TRY(load_numbers(file, loaded));
  return loaded;
}

Result<void> SqliteStore::keep(const Keep& changes) {
  if (changes.empty()) return {};
  Transaction transaction(database_->file);
  TRY(transaction.begin());
  TRY(write(database_->file, changes));
  return transaction.commit();
}

Result<std::vector<Run>> SqliteStore::runs(long task) {
  Sql rows(database_->file, "SELECT record FROM runs WHERE task = ?1 ORDER BY attempt");
  rows.with(std::int64_t{task});
  std::vector<Run> runs;
  while (rows.row()) {
    auto run = TRY(parse_run(database_->file.path(), rows.text(0)));
    runs.push_back(std::move(run));
  }
  TRY(rows.done());
  return runs;
}

Result<std::optional<Task>> SqliteStore::task(long id) {
  const auto found = TRY(read_tasks(database_->file, "SELECT record FROM tasks WHERE id = ?1", id));
  return found.empty() ? std::nullopt : std::optional(found.front());
}

Result<std::vector<Task>> SqliteStore::ended(const Past& past) {
  return read_tasks(database_->file,
                    "SELECT record FROM (SELECT id, record FROM tasks WHERE over = 1"
                    "  ORDER BY id DESC LIMIT ?1) WHERE id > ?2 ORDER BY id LIMIT ?3",
                    past.last, past.after, past.most);
}

Result<void> SqliteStore::limit_pages(long pages) {
  const long limit = pages > 0 ? pages : 1'073'741'823;
  return database_->file.run(fmt::format("PRAGMA max_page_count = {}", limit).c_str());
}

}  // namespace partita::queue
