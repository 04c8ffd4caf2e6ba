// The files door: whole-file reads, atomic writes, durable appends, directory listings, locks.
// Everything that parses takes text, so that parsers are pure; only apps, drivers and actuate hold
// a Files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita {

// Larger inputs are refused: nothing Partita reads comes near it.
inline constexpr std::size_t kMaxFileBytes = 512u << 20;

// Holds what Files::lock took, and lets go of it when it dies.
using FileLock = std::shared_ptr<void>;

class Files {
 public:
  virtual ~Files() = default;
  // The whole file. Missing, over kMaxFileBytes, a FIFO or device: an Error that names the path.
  // "-" is standard input, once.
  virtual Result<std::string> read(const std::string& path) = 0;
  // Temporary file beside `path`, fsync, rename, fsync of the directory: old or new content, never
  // a mix. Only the owner may write it, whatever the umask; what kills left of earlier writes goes.
  virtual Result<void> write_atomic(const std::string& path, std::string_view content) = 0;
  // Names (not paths) of the regular files in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  // Whether there is anything of that name.
  virtual bool exists(const std::string& path) = 0;
  // Adds to the end of the file, creating it; once it returns, the text survives a crash of the
  // machine. A crash before that may leave any prefix of the text.
  virtual Result<void> append(const std::string& path, std::string_view text) = 0;
  // Removes a regular file; one that is not there is no error.
  virtual Result<void> remove(const std::string& path) = 0;
  // The directory with its parents; one that is there is no error.
  virtual Result<void> make_directories(const std::string& path) = 0;
  // Takes the exclusive lock named by the file `path` (created when missing), held until the answer
  // dies or the process ends. ErrorCode::in_use with who it is when another holds it; never waits.
  virtual Result<FileLock> lock(const std::string& path) = 0;
};

class RealFiles final : public Files {
 public:
  Result<std::string> read(const std::string& path) override;
  Result<void> write_atomic(const std::string& path, std::string_view content) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  bool exists(const std::string& path) override;
  Result<void> append(const std::string& path, std::string_view text) override;
  Result<void> remove(const std::string& path) override;
  Result<void> make_directories(const std::string& path) override;
  Result<FileLock> lock(const std::string& path) override;

 private:
  bool standard_input_read_ = false;
};

// Files in memory, for tests and simulations. A directory exists when a path below it does.
class MemoryFiles final : public Files {
 public:
  Result<std::string> read(const std::string& path) override;
  Result<void> write_atomic(const std::string& path, std::string_view content) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  bool exists(const std::string& path) override;
  Result<void> append(const std::string& path, std::string_view text) override;
  Result<void> remove(const std::string& path) override;
  Result<void> make_directories(const std::string& path) override;
  Result<FileLock> lock(const std::string& path) override;

  std::map<std::string, std::string> content;

 private:
  std::map<std::string, std::weak_ptr<void>> locks_;
};

}  // namespace partita
