#include "base/secret_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace partita {
namespace {

Result<void> refuse_bits(const std::string& path, mode_t bits, const char* mode) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const mode_t found = status.st_mode & bits;
  if (found == 0) return {};
  const bool read = (found & (S_IRGRP | S_IROTH)) != 0, write = (found & (S_IWGRP | S_IWOTH)) != 0;
  return bad_input(path, fmt::format("others may {} it; mend that with: chmod {} {}",
                                     read && write ? "read and write"
                                     : read        ? "read"
                                                   : "write",
                                     mode, path));
}

}  // namespace

Result<void> check_secret_file(const std::string& path) {
  return refuse_bits(path, S_IROTH | S_IWOTH | S_IWGRP, "600");
}

Result<void> check_trusted_file(const std::string& path) {
  return refuse_bits(path, S_IWOTH | S_IWGRP, "go-w");
}

}  // namespace partita
