// A folder for one test, removed with it: in memory where there is such a place, because a test
// syncs a thousand times.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace partita::history {

struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = "/dev/shm/partita-hist-XXXXXX";
    const char* made = ::mkdtemp(name.data());
    if (made == nullptr) {
      name = (std::filesystem::temp_directory_path() / "partita-hist-XXXXXX").string();
      made = ::mkdtemp(name.data());
    }
    path = made != nullptr ? made : ".";
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string file() const { return path + "/history.db"; }
  std::string path;
};

}  // namespace partita::history
