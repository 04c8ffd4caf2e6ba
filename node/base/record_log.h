// Record log: an append-only file of checksummed lines, what journals are made of. A line is eight
// hexadecimal digits of zlib's CRC-32 of the record, a space, the record (any text without a
// newline). The first one is a header with the kind of the log and its version; logs from before
// there were headers are read, too.
//
// Fault model: what was appended is there once append returns; a crash, or an append that fails
// (disk full), may leave any prefix of the last lines. A last line without its newline is torn and
// dropped; damage anywhere else is refused with FILE:LINE. Limits: files.h's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace partita {

inline constexpr int kLogVersion = 1;

// One line with its newline; `record` has none.
std::string log_line(std::string_view record);
// The first line of a log of this kind.
std::string log_header(std::string_view kind);

struct LogRecord {
  int line = 0;  // from 1
  std::string_view text;
};
struct ParsedLog {
  std::vector<LogRecord> records;  // without the header; they refer to the text
  std::size_t valid_bytes = 0;     // shorter than the text when the end is torn
};
// Refused with FILE:LINE: a line that is no record or whose checksum is wrong, a header of another
// kind or a later version.
Result<ParsedLog> parse_log(const std::string& file, std::string_view kind, std::string_view text);

// An open log. Whoever has it open holds the lock `path`.lock. Single-threaded.
class RecordLog {
 public:
  // Takes the lock (in_use when another has it) and reads what is there; writes nothing, the file
  // comes into being with the first append.
  static Result<RecordLog> open(Files& files, const std::string& path, const std::string& kind);
  // The records that open() found, with their lines.
  const ParsedLog& found() const { return found_; }
  // Durable once it returns. What a crash or a failed append left torn is cut off before.
  Result<void> append(const std::vector<std::string>& records);
  // The same, but durable only once the next append() returns; until then a crash of the machine
  // may take them, the end of this process not.
  Result<void> append_unsynced(const std::vector<std::string>& records);
  // The same two, of what is to be done next: refused unless there is room on the disk for its
  // outcome, too. That is kept in the file `path`.room, which an append gives up where the disk is
  // full; what others write just then may be faster.
  Result<void> announce(const std::vector<std::string>& records);
  Result<void> announce_unsynced(const std::vector<std::string>& records);
  // Leaves exactly these records: old or new, never a mix.
  Result<void> replace(const std::vector<std::string>& records);
  std::size_t bytes() const { return bytes_; }

 private:
  RecordLog(Files& files, std::string path, std::string kind, FileLock lock)
      : files_(&files), path_(std::move(path)), kind_(std::move(kind)), lock_(std::move(lock)) {}
  using Append = Result<void> (Files::*)(const std::string&, std::string_view);
  Result<void> append_by(Append how, const std::vector<std::string>& records);
  Result<std::string> settled();
  Result<void> append_once(Append how, const std::vector<std::string>& records);
  Result<void> keep_room();
  std::string room_path() const { return path_ + ".room"; }

  Files* files_;
  std::string path_, kind_;
  FileLock lock_;
  std::shared_ptr<const std::string> text_;  // what found_ refers to
  ParsedLog found_;
  std::size_t bytes_ = 0;  // of whole lines
  std::size_t room_ = 0;   // bytes that are kept
  bool torn_ = false;      // the file may hold more than them
  std::string doubtful_;   // what it holds instead, if a replace() that failed has happened
};

}  // namespace partita
