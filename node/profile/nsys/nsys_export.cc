#include "profile/nsys/nsys_export.h"

#include <sqlite3.h>

#include <cstring>
#include <memory>

namespace partita::profile {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;
constexpr double kNsPerUs = 1e3;

using Database = std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)>;
using Statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

// SQLite keeps its own copy, since a damaged one must not reach what we were given.
Database open(std::string_view bytes) {
  sqlite3* opened = nullptr;
  if (sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK)
    return {opened, sqlite3_close_v2};
  Database database(opened, sqlite3_close_v2);
  auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
  if (copy == nullptr) return {nullptr, sqlite3_close_v2};
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  sqlite3_deserialize(opened, "main", copy, size, size,
                      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return database;
}

// Names as the device has them, which lanes look for; older exports have only readable ones.
constexpr const char* kKernels =
    "SELECT COALESCE(m.value, s.value), k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL AS k "
    "JOIN StringIds AS s ON s.id = k.demangledName "
    "LEFT JOIN StringIds AS m ON m.id = k.mangledName ORDER BY k.start LIMIT ?1";
constexpr const char* kReadableKernels =
    "SELECT s.value, k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL AS k "
    "JOIN StringIds AS s ON s.id = k.demangledName ORDER BY k.start LIMIT ?1";

}  // namespace

Result<KernelTrace> parse_nsys_export(const std::string& file, std::string_view bytes) {
  if (bytes.empty() || bytes.size() > kMostBytes) return bad_input(file, "is no SQLite export");
  const Database database = open(bytes);
  if (database == nullptr) return bad_input(file, "cannot be opened as a database");
  const auto wrong = [&] { return bad_input(file, sqlite3_errmsg(database.get())); };
  sqlite3_stmt* made = nullptr;
  int prepared = sqlite3_prepare_v2(database.get(), kKernels, -1, &made, nullptr);
  if (prepared != SQLITE_OK)
    prepared = sqlite3_prepare_v2(database.get(), kReadableKernels, -1, &made, nullptr);
  const Statement statement(made, sqlite3_finalize);
  if (prepared != SQLITE_OK) return wrong();
  sqlite3_bind_int64(made, 1, static_cast<sqlite3_int64>(kMaxTraceKernels));
  KernelTrace trace;
  int step = SQLITE_ROW;
  for (; (step = sqlite3_step(made)) == SQLITE_ROW;) {
    const auto* const name = reinterpret_cast<const char*>(sqlite3_column_text(made, 0));
    const double begin = static_cast<double>(sqlite3_column_int64(made, 1));
    const double end = static_cast<double>(sqlite3_column_int64(made, 2));
    if (name == nullptr || end < begin) return bad_input(file, "a kernel without name or time");
    trace.push_back({name, begin / kNsPerUs, (end - begin) / kNsPerUs});
  }
  if (step != SQLITE_DONE) return wrong();
  if (trace.empty()) return bad_input(file, "has no kernels");
  in_order(trace);
  return trace;
}

}  // namespace partita::profile
