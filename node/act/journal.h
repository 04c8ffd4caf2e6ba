// Journal: the durable record of changes, a log (base/record_log.h) of JSON records. It never says
// what the node is like (that is read back); it says what Partita was about (target, source,
// matching), and what it made itself (so that it can tell its own instances from those of others,
// and finds what a crash left half made).
//
// A torn end is dropped; damage anywhere else is refused and nothing is done. Limit: a journal of
// kMaxJournalBytes is rewritten as its state between two transactions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "act/change.h"
#include "act/wanted.h"
#include "base/files.h"
#include "base/record_log.h"
#include "base/result.h"

namespace partita::actuate {

inline constexpr std::size_t kMaxJournalBytes = 1u << 16;  // read whole at every change

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

// Its line in the log.
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

// What it amounts to with one record more.
void follow(JournalState& state, const Record& record);

// The shortest journal that amounts to the same, as a text.
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

// An open journal. Whoever has it open holds the lock `path`.lock.
class Journal {
 public:
  // Opens or creates `path`; a torn end is gone before the first append.
  static Result<Journal> open(Files& files, const std::string& path);
  const JournalState& state() const { return state_; }
  // Durable once it returns. What a failed append left in the file is gone before the next one.
  Result<void> append(const Record& record);

 private:
  Journal(RecordLog log, JournalState state) : log_(std::move(log)), state_(std::move(state)) {}

  RecordLog log_;
  JournalState state_;
};

}  // namespace partita::actuate
