// What happened on a node, for people who ask later: who wanted what, why a change was made, what
// came of it. Events are only ever added; a store (history/store) numbers them. Values and their
// form; knows no database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"

namespace partita::history {

inline constexpr std::size_t kMaxSentenceBytes = 4096;  // cause, detail
inline constexpr std::size_t kMaxWhoBytes = 256;        // user, subject, names of documents
inline constexpr std::size_t kMaxDocumentBytes = 1u << 20;
inline constexpr std::size_t kMaxDocuments = 16;  // of one event

enum class EventKind : std::uint8_t {
  started,  // the agent; stopped: it ended on purpose
  stopped,
  desired,   // services or settings were changed; document: what is wanted now
  proposed,  // a change was planned and judged; documents: plan, change
  approved,
  rejected,  // by a person, or because it no longer fits (superseded)
  applying,  // before the first step
  step,      // one step of a change has ended
  applied,   // how a change ended: outcome says it
  repair,    // drift was found: reboot, foreign change, dead instance
  health,    // a GPU was taken out or given back
  notice,    // somebody was told: webhook, command
  hook,      // a hook ran
  access,    // somebody called what needs the role operator or admin, or was refused
};
enum class Outcome : std::uint8_t { none, succeeded, failed, refused, interrupted };

struct Event {
  long id = 0;               // by the store, ascending from 1; 0: not stored
  std::int64_t time_ms = 0;  // since 1970, UTC
  EventKind kind = EventKind::started;
  long change = 0;           // number of the change that it belongs to; 0: none
  std::string user = {};     // "agent", "root", "token ops"; never empty once stored
  std::string cause = {};    // why, a sentence
  std::string subject = {};  // a service, a GPU's UUID ...; may be empty
  Outcome outcome = Outcome::none;
  std::string detail = {};  // what, a sentence
  // Documents as JSON text, by name ("plan", "change", "desired", "verdict"). What is larger than
  // the limits above is made to fit when it is stored: see fitted().
  struct Attachment {
    std::string name, text;
    bool operator==(const Attachment&) const = default;
  };
  std::vector<Attachment> documents = {};
  bool operator==(const Event&) const = default;
};

const char* to_string(EventKind kind);
const char* to_string(Outcome outcome);
// All of them, in the order of the enum.
const std::vector<EventKind>& event_kinds();
std::optional<EventKind> parse_kind(std::string_view word);
std::optional<Outcome> parse_outcome(std::string_view word);

// The event within the limits: sentences and names are cut at a character and end in "...", a
// document that is too large becomes {"left_out_bytes": N}, documents above kMaxDocuments go.
Event fitted(Event event);

// A number that was measured at a time, kept coarser the older it is. `metric` is one of a few
// fixed names: "rate_rps", "planned_rps", "p99_ms", "attainment", "tokens_per_s", "ttft_p99_ms",
// "tpot_p99_ms", "key_rps", "key_refused_rps", "key_bytes_per_s", "key_tokens_per_s", "watts",
// "gpus", "instances".
struct Measured {
  std::int64_t time_ms = 0;
  std::string metric, subject;  // subject: service, "SERVICE, KEY", GPU; empty: the node
  double value = 0;
  bool operator==(const Measured&) const = default;
};

// Of so long a time: how many, mean, least and greatest.
struct Bucket {
  std::int64_t from_ms = 0, length_ms = 0;
  long count = 0;
  double mean = 0, least = 0, greatest = 0;
  bool operator==(const Bucket&) const = default;
};

// The document `kind: History`: events, newest first. parse_history(history_json(e)) == e for valid
// UTF-8. Refused with FILE:LINE: unknown kinds and outcomes, no user, numbers that do not fall.
std::string history_json(const std::vector<Event>& events);
Result<std::vector<Event>> parse_history(const std::string& file, std::string_view text);
// One event, as it stands in that list, in one line.
std::string event_json(const Event& event);
// The document `kind: Series`: the buckets of one metric of one subject, oldest first.
struct Series {
  std::string metric, subject;
  std::vector<Bucket> buckets;
  bool operator==(const Series&) const = default;
};
std::string series_json(const Series& series);
Result<Series> parse_series(const std::string& file, std::string_view text);
// The kinds above, for `partita schema`.
std::vector<DocumentKind> document_kinds();

}  // namespace partita::history
