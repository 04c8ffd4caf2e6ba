#include "node/log_rotation.h"

#include <filesystem>

namespace partita::cli {
namespace {

namespace fs = std::filesystem;

// Emptied in place, not renamed: the program keeps its file open.
std::error_code rotate(const fs::path& log) {
  std::error_code code;
  fs::copy_file(log, log.string() + ".1", fs::copy_options::overwrite_existing, code);
  if (!code) fs::resize_file(log, 0, code);
  return code;
}

}  // namespace

Result<void> rotate_logs(const std::string& directory, std::uintmax_t limit) {
  Result<void> result;
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    std::error_code vanished;
    if (it->path().extension() != ".log" || it->file_size(vanished) <= limit || vanished) continue;
    const std::error_code failure = rotate(it->path());
    if (failure && result)
      result = environment_error(it->path().string(), "cannot rotate: " + failure.message());
  }
  if (code && result) return environment_error(directory, "cannot list: " + code.message());
  return result;
}

}  // namespace partita::cli
