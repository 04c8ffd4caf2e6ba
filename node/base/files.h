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
  // A pipe of the shell, <(...), is read once by this process, and says the same again.
  // "-" is standard input, once.
  virtual Result<std::string> read(const std::string& path) = 0;
  // Temporary file beside `path`, fsync, rename, fsync of the directory: old or new content, never
  // a mix. Only the owner may write it, whatever the umask; what kills left of earlier writes goes.
  virtual Result<void> write_atomic(const std::string& path, std::string_view content) = 0;
  // The same without fsync, for what is worth nothing once its writer is gone: a crash of the
  // machine may leave an empty file, too. Of doors that make no difference, write_atomic().
  virtual Result<void> write_unsynced(const std::string& path, std::string_view content) {
    return write_atomic(path, content);
  }
  // Names (not paths) of the regular files in a directory, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  // Whether there is anything of that name.
  virtual bool exists(const std::string& path) = 0;
  // Adds to the end of the file, creating it; once it returns, the text survives a crash of the
  // machine. A crash before that may leave any prefix of the text.
  virtual Result<void> append(const std::string& path, std::string_view text) = 0;
  // The same, but the text survives the end of this process alone; a crash of the machine may leave
  // any prefix of it until the next append() to the file returns. Of doors that make no difference,
  // append().
  virtual Result<void> append_unsynced(const std::string& path, std::string_view text) {
    return append(path, text);
  }
  // Removes a regular file; one that is not there is no error.
  virtual Result<void> remove(const std::string& path) = 0;
  // The directory with its parents; one that is there is no error.
  virtual Result<void> make_directories(const std::string& path) = 0;
  // Takes the exclusive lock named by the file `path` (created when missing), held until the answer
  // dies or the process ends. ErrorCode::in_use with who it is when another holds it; waits only
  // for what a process that has ended has left to a child that is just starting, 2 s at most.
  virtual Result<FileLock> lock(const std::string& path) = 0;
  // Gives a file another name, in place of one that has it.
  virtual Result<void> rename(const std::string& from, const std::string& to);
};

// ---- files that are damaged

inline constexpr int kDamagedKept = 3;  // of one file; older ones go

// Moves a file that cannot be used out of the way, under a name of its own: PATH.damaged-N, the
// answer; `parts` are endings of files that belong to it and move along. The error says that it
// cannot be moved.
Result<std::string> set_aside(Files& files, const std::string& path,
                              const std::vector<std::string>& parts = {});

// A JSON object with a checksum as its last key, which readers that know nothing of it skip.
std::string sealed(std::string_view json);
// What was sealed; a text without a seal is from before there were any and stays as it is. Refused
// with the file's name: it is not what was sealed.
Result<std::string> unsealed(const std::string& file, std::string_view text);

class RealFiles final : public Files {
 public:
  Result<std::string> read(const std::string& path) override;
  Result<void> write_atomic(const std::string& path, std::string_view content) override;
  Result<void> write_unsynced(const std::string& path, std::string_view content) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  bool exists(const std::string& path) override;
  Result<void> append(const std::string& path, std::string_view text) override;
  Result<void> append_unsynced(const std::string& path, std::string_view text) override;
  Result<void> remove(const std::string& path) override;
  Result<void> make_directories(const std::string& path) override;
  Result<FileLock> lock(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;

 private:
  bool standard_input_read_ = false;
};

// Files in memory, for tests and simulations; a test that breaks one of its functions derives from
// it. A directory exists when a path below it does.
class MemoryFiles : public Files {
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
  Result<void> rename(const std::string& from, const std::string& to) override;

  std::map<std::string, std::string> content;

 private:
  std::map<std::string, std::weak_ptr<void>> locks_;
};

}  // namespace partita
