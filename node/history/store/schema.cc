// The tables of every version of the schema, each as what it adds to the one before.
#include <fmt/format.h>

#include <array>

#include "history/store/database.h"

namespace partita::history {
namespace {

constexpr std::int64_t kApplication = 0x50617274;  // "Part"

// Never changed once released: files of these versions are out there.
constexpr std::array<const char*, kSchemaVersion> kAdditions{
    // 1: what happened
    "CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,"
    "  kind TEXT NOT NULL, change INTEGER NOT NULL, user TEXT NOT NULL, cause TEXT NOT NULL,"
    "  subject TEXT NOT NULL, outcome TEXT NOT NULL, detail TEXT NOT NULL);"
    "CREATE INDEX events_of_change ON events(change);"
    "CREATE TABLE documents(event INTEGER NOT NULL, position INTEGER NOT NULL,"
    "  name TEXT NOT NULL, text TEXT NOT NULL);"
    "CREATE UNIQUE INDEX documents_of_event ON documents(event, position);",
    // 2: what was measured. Level 0: single measurements, 1: minutes, 2: hours. Without least and
    // greatest both are the total: there was one measurement.
    "CREATE TABLE series(id INTEGER PRIMARY KEY, metric TEXT NOT NULL, subject TEXT NOT NULL,"
    "  UNIQUE(metric, subject));"
    "CREATE TABLE buckets(level INTEGER NOT NULL, series INTEGER NOT NULL,"
    "  from_ms INTEGER NOT NULL, count INTEGER NOT NULL, total REAL NOT NULL, least REAL,"
    "  greatest REAL, PRIMARY KEY(level, series, from_ms)) WITHOUT ROWID;",
    // 3: numbers of changes outlive their events; how much of the file documents are
    "CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO counters SELECT 'change', coalesce(max(change), 0) FROM events;"
    "INSERT INTO counters"
    "  SELECT 'document_bytes', coalesce(sum(length(CAST(text AS BLOB))), 0) FROM documents;",
};

// The version of a history; 0 where the file is empty. Within a transaction, so that its three
// reads are of one moment: another process may be making the tables.
Result<std::int64_t> version_within(const SqlFile& file) {
  const auto application = TRY(file.ask("PRAGMA application_id"));
  const auto version = TRY(file.ask("PRAGMA user_version"));
  const auto tables = TRY(file.ask("SELECT count(*) FROM sqlite_master"));
  if (application == 0 && version == 0 && tables == 0) return 0;
  if (application != kApplication || version < 1)
    return bad_input(file.path(), "is a SQLite file, but no history of Partita's");
  if (version > kSchemaVersion)
    return bad_input(file.path(),
                     fmt::format("is of a later Partita: its schema is {}, this one knows those up "
                                 "to {}. Use the Partita that wrote it, or move it away",
                                 version, kSchemaVersion));
  return version;
}

Result<std::int64_t> version_of(const SqlFile& file) {
  Transaction transaction(file);
  TRY(transaction.begin(false));
  const auto version = TRY(version_within(file));
  TRY(transaction.commit());
  return version;
}

}  // namespace

Result<void> check_schema(const SqlFile& file) {
  const auto version = TRY(version_of(file));
  if (version == kSchemaVersion) return {};
  if (version == 0) return environment_error(file.path(), "is empty: nothing has been kept yet");
  return environment_error(
      file.path(), fmt::format("is of an earlier Partita (schema {}, this one reads {}); whatever "
                               "writes it next, the agent or `partita apply`, brings it up to date",
                               version, kSchemaVersion));
}

Result<void> bring_up_to_date(const SqlFile& file) {
  auto version = version_of(file);
  if (!version) return failed(version.error());
  if (*version == 0) {
    if (auto set = file.run("PRAGMA auto_vacuum = INCREMENTAL"); !set) return set;
  }
  TRY(file.run("PRAGMA journal_mode = WAL"));
  if (*version == kSchemaVersion) return {};
  Transaction transaction(file);
  TRY(transaction.begin());
  version = version_within(file);  // another process may have been here
  if (!version) return failed(version.error());
  for (auto next = static_cast<std::size_t>(*version); next < kAdditions.size(); ++next) {
    if (auto added = file.run(kAdditions[next]); !added) return added;
  }
  const std::string marks = fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                        kApplication, kSchemaVersion);
  TRY(file.run(marks.c_str()));
  return transaction.commit();
}

}  // namespace partita::history
