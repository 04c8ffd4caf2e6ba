// Files of every version of the schema, made by the SQL that made them then, are brought up to date
// without loss. A new version adds its file here; those that stand here never change.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "history/store/sql.h"
#include "history/store/store.h"
#include "history/store/testing/temporary_folder.h"

namespace partita::history {
namespace {

constexpr const char* kVersion1 =
    "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
    "CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,"
    "  kind TEXT NOT NULL, change INTEGER NOT NULL, user TEXT NOT NULL, cause TEXT NOT NULL,"
    "  subject TEXT NOT NULL, outcome TEXT NOT NULL, detail TEXT NOT NULL);"
    "CREATE INDEX events_of_change ON events(change);"
    "CREATE TABLE documents(event INTEGER NOT NULL, position INTEGER NOT NULL,"
    "  name TEXT NOT NULL, text TEXT NOT NULL);"
    "CREATE UNIQUE INDEX documents_of_event ON documents(event, position);"
    "PRAGMA application_id = 0x50617274; PRAGMA user_version = 1;"
    "INSERT INTO events VALUES(4, 1000, 'proposed', 7, 'agent', 'why', 'chat', 'none', '');"
    "INSERT INTO events VALUES(6, 2000, 'applied', 7, 'root', '', '', 'failed', 'what');"
    "INSERT INTO documents VALUES(4, 0, 'plan', '{}'), (4, 1, 'change', '[\"é\"]');";
constexpr const char* kVersion2 =
    "CREATE TABLE series(id INTEGER PRIMARY KEY, metric TEXT NOT NULL, subject TEXT NOT NULL,"
    "  UNIQUE(metric, subject));"
    "CREATE TABLE buckets(level INTEGER NOT NULL, series INTEGER NOT NULL,"
    "  from_ms INTEGER NOT NULL, count INTEGER NOT NULL, total REAL NOT NULL, least REAL,"
    "  greatest REAL, PRIMARY KEY(level, series, from_ms)) WITHOUT ROWID;"
    "PRAGMA user_version = 2;"
    "INSERT INTO series VALUES(3, 'watts', 'g');"
    "INSERT INTO buckets VALUES(0, 3, 120000, 1, 5, NULL, NULL), (1, 3, 60000, 2, 9, 4, 5);";
constexpr const char* kVersion3 =
    "CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO counters VALUES('change', 7), ('document_bytes', 8);"
    "PRAGMA user_version = 3;";

// A file of that version with what it could hold.
void make_file(const std::string& path, int version) {
  const auto file = SqlFile::open(path, true);
  ASSERT_TRUE(file);
  const std::vector<const char*> steps{kVersion1, kVersion2, kVersion3};
  for (int v = 0; v < version; ++v) {
    const auto done = file->run(steps[static_cast<std::size_t>(v)]);
    ASSERT_TRUE(done) << to_string(done.error());
  }
}

// The shape of a file: its tables and indices with their SQL.
std::map<std::string, std::string> shape(const std::string& path) {
  const auto file = SqlFile::open(path, false);
  Sql rows(*file,
           "SELECT name, coalesce(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite%'");
  std::map<std::string, std::string> found;
  while (rows.row()) found[rows.text(0)] = rows.text(1);
  return found;
}

TEST(Schema, EveryVersionIsBroughtUpToDateWithoutLoss) {
  const TemporaryFolder fresh;
  { ASSERT_TRUE(Store::open(fresh.file(), Access::write)); }
  for (int version = 1; version <= kSchemaVersion; ++version) {
    SCOPED_TRACE(version);
    const TemporaryFolder folder;
    make_file(folder.file(), version);
    const auto early = Store::open(folder.file(), Access::read);
    EXPECT_EQ(early.has_value(), version == kSchemaVersion);
    if (!early) {
      EXPECT_NE(early.error().message.find("earlier Partita"), std::string::npos);
    }
    auto store = Store::open(folder.file(), Access::write);
    ASSERT_TRUE(store) << to_string(store.error());
    const std::vector<Event> events{
        {6, 2000, EventKind::applied, 7, "root", "", "", Outcome::failed, "what", {}},
        {4,
         1000,
         EventKind::proposed,
         7,
         "agent",
         "why",
         "chat",
         Outcome::none,
         "",
         {{"plan", "{}"}, {"change", "[\"é\"]"}}}};
    EXPECT_EQ(store->events({}).value(), events);
    EXPECT_EQ(store->append({.user = "x"}).value(), 7);
    EXPECT_EQ(store->last_change().value(), 7);
    const auto buckets = store->series({"watts", "g", 0, 1'000'000}).value();
    if (version >= 2) {
      const std::vector<Bucket> expected{{60'000, 60'000, 2, 4.5, 4, 5}, {120'000, 0, 1, 5, 5, 5}};
      EXPECT_EQ(buckets, expected);
    } else {
      EXPECT_TRUE(buckets.empty());
    }
    const auto file = SqlFile::open(folder.file(), false);
    EXPECT_EQ(file->ask("SELECT value FROM counters WHERE name = 'document_bytes'").value(), 8);
    EXPECT_EQ(file->ask("PRAGMA user_version").value(), kSchemaVersion);
    EXPECT_EQ(shape(folder.file()), shape(fresh.file()));
    EXPECT_TRUE(Store::open(folder.file(), Access::read));
  }
}

TEST(Schema, ALaterVersionIsRefusedWithASentence) {
  const TemporaryFolder folder;
  make_file(folder.file(), kSchemaVersion);
  ASSERT_TRUE(SqlFile::open(folder.file(), true)->run("PRAGMA user_version = 99"));
  for (const Access access : {Access::read, Access::write}) {
    const auto store = Store::open(folder.file(), access);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::bad_input);
    EXPECT_NE(store.error().message.find("of a later Partita: its schema is 99"),
              std::string::npos);
  }
  EXPECT_EQ(SqlFile::open(folder.file(), false)->ask("PRAGMA user_version").value(), 99);
}

TEST(Schema, DatabasesOfOthersAreLeftAlone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(SqlFile::open(folder.file(), true)->run("CREATE TABLE events(x)"));
  const auto store = Store::open(folder.file(), Access::write);
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("no history of Partita's"), std::string::npos);
  EXPECT_EQ(shape(folder.file()).size(), 1U);
}

TEST(Schema, AnEmptyFileBecomesAHistory) {
  const TemporaryFolder folder;
  { ASSERT_TRUE(SqlFile::open(folder.file(), true)); }  // as a kill right after creation leaves it
  EXPECT_NE(Store::open(folder.file(), Access::read).error().message.find("empty"),
            std::string::npos);
  EXPECT_TRUE(Store::open(folder.file(), Access::write)->append({.user = "x"}));
}

}  // namespace
}  // namespace partita::history
