// The journal of a batch run: a log (base/record_log.h) of JSON records. They are durable before
// what they announce is done (create, start, stop) or built upon (created, end), so that a run
// which was killed can be continued: docs/formats.md lists them. Limits: kMaxRecords.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/record_log.h"
#include "base/result.h"
#include "act/batch/operation.h"
#include "act/batch/script.h"

namespace partita::exec {

inline constexpr std::size_t kMaxRecords = 4'000'000;

struct Record {
  enum class Kind {
    run,        // a new run: its name, the fingerprint of its script, the clock at its start
    create,     // about to create the instance of a visit
    created,    // it is there
    stale,      // it is there, but only half
    destroyed,  // it is gone, or could not be created
    start,      // about to start an attempt of a task
    stop,       // about to ask the attempt to end before its time, which is no fault of the task
    end,        // the attempt ended
    done,       // the run is over and reported: nothing is left to continue
  };
  Kind kind = Kind::run;
  Nanos time = 0;        // since the start of the run
  std::string run = {};  // run
  std::string script = {};
  std::int64_t origin = 0;
  int visit = 0;          // create, created, stale, destroyed
  Made made = {};         // created, stale
  std::string task = {};  // start, stop, end
  int attempt = 0;        // from 1
  int status = 0;         // end: exit status
  bool in_time = true;    // end: not stopped for taking too long, or for the end of the run
  bool operator==(const Record&) const = default;
};

inline constexpr const char* kLogKind = "batch run";

// A record of the log, and its line.
std::string record_text(const Record& record);
std::string record_line(const Record& record);

struct ParsedJournal {
  std::vector<Record> records;  // the first one is a run; none: nothing had begun
  std::size_t valid_bytes = 0;  // shorter than the text when the last line is torn
};
// Refused with FILE:LINE: what the log refuses, a record whose content is wrong, a journal that
// does not begin with a run or has several.
Result<std::vector<Record>> records_of(const std::string& file, const ParsedLog& log);
Result<ParsedJournal> parse_journal(const std::string& file, std::string_view text);

}  // namespace partita::exec
