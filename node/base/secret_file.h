// Files that hold secrets, and what TLS servers of ours offer. A key or token that others may read
// is no secret any more, one that others may write is theirs: both are refused with the command
// that mends it. Only regular files are looked at, not pipes; the file's group may read.
#pragma once

#include <string>

#include "base/result.h"

namespace partita {

// bad_input at the path where others may read or write it. A file that is not there is no fault.
Result<void> check_secret_file(const std::string& path);
// The same where others may write it: what it holds (hashes, roles) may be read.
Result<void> check_trusted_file(const std::string& path);

// Of TLS 1.2: forward secret and authenticated, nothing else. Those of TLS 1.3 all are.
inline constexpr const char* kTlsSuites = "ECDHE+AESGCM:ECDHE+CHACHA20";

}  // namespace partita
