// GivenFiles: a Files door for readers alone. Texts that a caller gave come first, then the disk;
// nothing is written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files.h"

namespace partita::library {

class GivenFiles final : public Files {
 public:
  explicit GivenFiles(std::map<std::string, std::string> given) : given_(std::move(given)) {}

  Result<std::string> read(const std::string& path) override {
    const auto found = given_.find(path);
    if (found != given_.end()) return found->second;
    if (path == "-") return bad_input(path, "a library has no standard input");
    return disk_.read(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return disk_.list(path);
  }
  bool is_directory(const std::string& path) override {
    return !given_.contains(path) && disk_.is_directory(path);
  }
  bool exists(const std::string& path) override {
    return given_.contains(path) || disk_.exists(path);
  }
  Result<void> write_atomic(const std::string& path, std::string_view) override {
    return read_only(path);
  }
  Result<void> append(const std::string& path, std::string_view) override {
    return read_only(path);
  }
  Result<void> remove(const std::string& path) override { return read_only(path); }
  Result<void> make_directories(const std::string& path) override { return read_only(path); }
  Result<void> rename(const std::string& from, const std::string&) override {
    return read_only(from);
  }
  Result<FileLock> lock(const std::string& path) override {
    return failed({ErrorCode::denied, "the library writes nothing", path});
  }

 private:
  static Result<void> read_only(const std::string& path) {
    return failed({ErrorCode::denied, "the library writes nothing", path});
  }

  std::map<std::string, std::string> given_;
  RealFiles disk_;
};

}  // namespace partita::library
