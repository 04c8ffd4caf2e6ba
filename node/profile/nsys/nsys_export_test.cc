#include "profile/nsys/nsys_export.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace partita::profile {
namespace {

// The bytes of a database made by these statements.
std::string database(const char* statements) {
  sqlite3* made = nullptr;
  EXPECT_EQ(sqlite3_open(":memory:", &made), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(made, statements, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_int64 size = 0;
  unsigned char* const bytes = sqlite3_serialize(made, "main", &size, 0);
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  sqlite3_free(bytes);
  sqlite3_close(made);
  return text;
}

constexpr const char* kTables =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER, demangledName INTEGER NOT NULL, gridX INTEGER);"
    "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'relu');";

TEST(NsysExport, KernelsInTheOrderOfTheirBegin) {
  const std::string bytes = database(
      (std::string(kTables) +
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 9000, 0, 2, 1), (1000, 4000, 0, 1, 1)")
          .c_str());
  const auto trace = parse_nsys_export("x.sqlite", bytes);
  ASSERT_TRUE(trace) << to_string(trace.error());
  EXPECT_EQ(*trace, (KernelTrace{{"gemm", 1, 3}, {"relu", 5, 4}}));
  for (std::size_t cut = 0; cut < bytes.size(); cut += 97)  // never more than was given
    static_cast<void>(parse_nsys_export("x.sqlite", bytes.substr(0, cut)));
}

TEST(NsysExport, NamesAsTheDeviceHasThem) {
  const std::string bytes =
      database((std::string(kTables) +
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN mangledName INTEGER;"
                "INSERT INTO StringIds VALUES (3, '_Z4gemmPf');"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 3000, 0, 1, 1, 3),"
                "(5000, 9000, 0, 2, 1, NULL)")
                   .c_str());
  const auto trace = parse_nsys_export("x.sqlite", bytes);
  ASSERT_TRUE(trace) << to_string(trace.error());
  EXPECT_EQ(*trace, (KernelTrace{{"_Z4gemmPf", 0, 3}, {"relu", 5, 4}}));
}

TEST(NsysExport, Refusals) {
  EXPECT_EQ(parse_nsys_export("x.sqlite", "").error().context, "x.sqlite");
  EXPECT_FALSE(parse_nsys_export("x.sqlite", "no database, but long enough to look at it"));
  EXPECT_FALSE(parse_nsys_export("x.sqlite", database(kTables)));  // no kernels
  EXPECT_FALSE(parse_nsys_export("x.sqlite", database("CREATE TABLE t (x)")));
}

}  // namespace
}  // namespace partita::profile
