// Journal: the durable record of changes, an append-only text file with one checksummed JSON record
// per line. It never says what the node is like (that is read back); it says what Partita was about
// (target, source, matching), and what it made itself (so that it can tell its own instances from
// those of others, and finds what a crash left half made).
//
// Fault model: appends are durable once they return; a crash may leave any prefix of the last line,
// and so may an append that fails (disk full). A torn last line is dropped; damage anywhere else is
// refused and nothing is done. Limit: a
// journal of kMaxJournalBytes is rewritten as its state between two transactions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actuate/change.h"
#include "actuate/wanted.h"
#include "base/files.h"
#include "base/result.h"

namespace partita::actuate {

inline constexpr std::size_t kMaxJournalBytes = 1u << 20;

struct BeginRecord {
  long transaction = 0;
  Wanted target, source;
  std::vector<std::string> gpu_uuids;  // per wanted GPU of the target
  bool rollback = false;
  bool operator==(const BeginRecord&) const = default;
};
// About to create something at a place.
struct IntentRecord {
  Place place;
  bool operator==(const IntentRecord&) const = default;
};
// The MIG device that came of the last intent at that place.
struct MadeRecord {
  Place place;
  std::string uuid;
  bool operator==(const MadeRecord&) const = default;
};
// A MIG device of ours that is gone.
struct GoneRecord {
  std::string uuid;
  bool operator==(const GoneRecord&) const = default;
};
struct EndRecord {
  long transaction = 0;
  std::string outcome;  // "done", or "failed": to be tried again or rolled back
  std::string reason;   // why it failed
  bool operator==(const EndRecord&) const = default;
};
using Record = std::variant<BeginRecord, IntentRecord, MadeRecord, GoneRecord, EndRecord>;

// One line, with its newline: eight hexadecimal digits of CRC-32, a space, JSON.
std::string record_line(const Record& record);

// What a journal amounts to.
struct JournalState {
  long transactions = 0;            // numbers used so far
  std::optional<BeginRecord> last;  // the last transaction
  std::optional<EndRecord> end;     // its end; absent: it was cut short
  std::vector<std::string> owned;   // MIG devices of ours, in order of making
  std::vector<Place> intended;      // intents without a made
  // The last transaction has not made its target so.
  bool pending() const { return last && (!end || end->outcome != "done"); }
  bool operator==(const JournalState&) const = default;
};

// The shortest journal that amounts to the same.
std::string journal_text(const JournalState& state);

struct ParsedJournal {
  JournalState state;
  std::size_t valid_bytes = 0;  // shorter than the text when the last line is torn
};
// Refused with FILE:LINE: a line that is no record, or whose checksum is wrong. A last line without
// newline is torn and left out.
Result<ParsedJournal> parse_journal(const std::string& file, std::string_view text);

// What the journal at `path` amounts to; one that is not there is empty. Takes no lock.
Result<JournalState> read_journal(Files& files, const std::string& path);

// An open journal. Whoever has it open holds the node's lock.
class Journal {
 public:
  // Opens or creates `path`, taking the lock `path`.lock; a torn tail is gone before the first
  // append.
  static Result<Journal> open(Files& files, const std::string& path);
  const JournalState& state() const { return state_; }
  // Durable once it returns. What a failed append left in the file is gone before the next one.
  Result<void> append(const Record& record);

 private:
  Journal(Files& files, std::string path, FileLock lock)
      : files_(&files), path_(std::move(path)), lock_(std::move(lock)) {}
  Result<void> rewrite();

  Files* files_;
  std::string path_;
  FileLock lock_;
  JournalState state_;
  std::size_t bytes_ = 0;
  bool torn_ = false;  // the file may hold something else than the records of state_
};

}  // namespace partita::actuate
