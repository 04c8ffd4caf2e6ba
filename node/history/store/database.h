// What a Store holds, and the pieces that its functions are made of. Internal to the store.
#pragma once

#include "history/store/sql.h"
#include "history/store/store.h"

namespace partita::history {

struct Store::Database {
  SqlFile file;
  Access access = Access::read;
  Keep keep = {};
  std::int64_t next_series = 0;  // where tidy() goes on
  int pressure = 0;              // by how often ages are halved because the file is too large
};

// Makes the tables of a new file, brings an older one up to date, refuses what is no history.
Result<void> bring_up_to_date(const SqlFile& file);
// The same without writing: anything but this schema is refused.
Result<void> check_schema(const SqlFile& file);

// Times and values beyond these are refused: sums of them stay finite.
inline constexpr std::int64_t kMaxTimeMs = 9'000'000'000'000'000;
inline constexpr double kMaxValue = 1e100;

}  // namespace partita::history
