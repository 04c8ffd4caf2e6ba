// LoudFiles: the Files door of the command line. It says what goes through it, which files and how
// many bytes, and what is written to "-" goes to standard output, as "-" read is standard input.
// Refers to the door behind it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace partita::cli {

class LoudFiles final : public Files {
 public:
  using Tell = std::function<void(const std::string&)>;
  LoudFiles(Files& files, Tell tell) : files_(files), tell_(std::move(tell)) {}

  Result<std::string> read(const std::string& path) override;
  Result<void> write_atomic(const std::string& path, std::string_view content) override;
  Result<void> write_unsynced(const std::string& path, std::string_view content) override {
    return files_.write_unsynced(path, content);  // several a second, and of no interest
  }
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool is_directory(const std::string& path) override { return files_.is_directory(path); }
  bool exists(const std::string& path) override;
  Result<void> append(const std::string& path, std::string_view text) override;
  Result<void> append_unsynced(const std::string& path, std::string_view text) override;
  Result<void> remove(const std::string& path) override;
  Result<void> make_directories(const std::string& path) override;
  Result<FileLock> lock(const std::string& path) override { return files_.lock(path); }
  Result<void> rename(const std::string& from, const std::string& to) override;

 private:
  Files& files_;
  Tell tell_;
};

}  // namespace partita::cli
