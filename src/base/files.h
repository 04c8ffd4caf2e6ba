// The files door: whole-file reads, atomic writes, directory listings. Everything that parses takes
// text, so that parsers are pure; only apps and drivers hold a Files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita {

// Larger inputs are refused: nothing Partita reads comes near it.
inline constexpr std::size_t kMaxFileBytes = 512u << 20;

class Files {
 public:
  virtual ~Files() = default;
  // The whole file. Missing, unreadable or over kMaxFileBytes: an Error whose context is the path.
  virtual Result<std::string> read(const std::string& path) = 0;
  // Temporary file beside `path`, fsync, rename, fsync of the directory: old or new content, never
  // a mix.
  virtual Result<void> write_atomic(const std::string& path, std::string_view content) = 0;
  // Names (not paths) of the regular files in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
};

class RealFiles final : public Files {
 public:
  Result<std::string> read(const std::string& path) override;
  Result<void> write_atomic(const std::string& path, std::string_view content) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool is_directory(const std::string& path) override;
};

// Files in memory, for tests and simulations. A directory exists when a path below it does.
class MemoryFiles final : public Files {
 public:
  Result<std::string> read(const std::string& path) override;
  Result<void> write_atomic(const std::string& path, std::string_view content) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool is_directory(const std::string& path) override;

  std::map<std::string, std::string> content;
};

}  // namespace partita
