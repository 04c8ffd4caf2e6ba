// Rotation of logs that running programs append to: what is there moves to a second file, and the
// program goes on at the beginning of the first. Lines written in between may be lost.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace partita::cli {

// Every NAME.log in `directory` with more than `limit` bytes becomes NAME.log.1, replacing an older
// one, and is emptied. The first that cannot be is the Error; the others are still done.
Result<void> rotate_logs(const std::string& directory, std::uintmax_t limit);

}  // namespace partita::cli
