#include "history/event.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/form_rules.h"

namespace partita::history {
namespace {

constexpr std::initializer_list<const char*> kKindWords{
    "started", "stopped", "desired", "proposed", "approved", "rejected", "applying",
    "step",    "applied", "repair",  "health",   "notice",   "hook",     "access"};
constexpr std::initializer_list<const char*> kOutcomeWords{"none", "succeeded", "failed", "refused",
                                                           "interrupted"};

constexpr Range kNumbers{.high = 9e15};
constexpr Range kTimes{.low = -9e15, .high = 9e15};
constexpr std::string_view kCut = "...";

void describe(Form& f, Event::Attachment& document) {
  f.text("name", document.name, "of the document: plan, change, desired, verdict");
  f.note("text", document.text, "the document itself, JSON as text");
}

void describe(Form& f, Event& event) {
  f.optional().whole("id", event.id, kNumbers, "ascending; 0: not stored");
  f.whole("time_ms", event.time_ms, kTimes, "since 1970, UTC");
  f.word("kind", event.kind, kKindWords, "what happened");
  f.optional().whole("change", event.change, kNumbers, "that it belongs to; 0: none");
  f.text("user", event.user, "who");
  f.optional().note("cause", event.cause, "why, a sentence");
  f.optional().note("subject", event.subject, "a service, a GPU");
  f.optional().word("outcome", event.outcome, kOutcomeWords, "how it ended");
  f.optional().note("detail", event.detail, "what, a sentence");
  f.optional(!event.documents.empty())
      .list("documents", event.documents, describe, {.most = kMaxDocuments}, "that belong to it");
}

struct Events {
  std::vector<Event> events;
};

void describe(Form& f, Events& all) {
  f.lines("  ");
  f.document("History");
  f.list("events", all.events, describe, {.indent = "    "}, "newest first");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  long before = 0;
  for (const Event& event : all.events) {
    if (event.id != 0 && before != 0 && event.id >= before) {
      in->refuse("events", fmt::format("event {} comes after event {}: the newest has to be first",
                                       event.id, before));
      return;
    }
    if (event.id != 0) before = event.id;
  }
}

void describe(Form& f, Bucket& bucket) {
  f.whole("from_ms", bucket.from_ms, kTimes, "since 1970, UTC");
  f.whole("length_ms", bucket.length_ms, kNumbers, "0: a single measurement");
  f.whole("count", bucket.count, {.low = 1, .high = 9e15}, "measurements in it");
  f.number("mean", bucket.mean, kAnyNumber, "of them");
  f.number("least", bucket.least, kAnyNumber, "of them");
  f.number("greatest", bucket.greatest, kAnyNumber, "of them");
}

void describe(Form& f, Series& series) {
  f.lines("  ");
  f.document("Series");
  f.text("metric", series.metric, "rate_rps, planned_rps, p99_ms, attainment, watts, ...");
  f.optional().note("subject", series.subject, "a service, a GPU; empty: the node");
  f.list("buckets", series.buckets, describe, {.indent = "    "}, "oldest first");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  for (std::size_t b = 1; b < series.buckets.size(); ++b) {
    const Bucket& before = series.buckets[b - 1];
    if (series.buckets[b].from_ms < before.from_ms + before.length_ms)
      in->refuse("buckets", fmt::format("bucket {} begins before the one before it has ended", b));
  }
}

// At most `most` bytes, whole characters.
void cut(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  std::size_t end = most - kCut.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  text += kCut;
}

template <class Enum>
std::optional<Enum> word_of(std::initializer_list<const char*> words, std::string_view word) {
  const auto at = std::ranges::find(words, word);
  if (at == words.end()) return std::nullopt;
  return static_cast<Enum>(at - words.begin());
}

}  // namespace

const char* to_string(EventKind kind) { return kKindWords.begin()[static_cast<int>(kind)]; }
const char* to_string(Outcome outcome) { return kOutcomeWords.begin()[static_cast<int>(outcome)]; }

const std::vector<EventKind>& event_kinds() {
  static const std::vector<EventKind> kinds = [] {
    std::vector<EventKind> all;
    for (std::size_t k = 0; k < kKindWords.size(); ++k) all.push_back(static_cast<EventKind>(k));
    return all;
  }();
  return kinds;
}

std::optional<EventKind> parse_kind(std::string_view word) {
  return word_of<EventKind>(kKindWords, word);
}
std::optional<Outcome> parse_outcome(std::string_view word) {
  return word_of<Outcome>(kOutcomeWords, word);
}

Event fitted(Event event) {
  cut(event.cause, kMaxSentenceBytes);
  cut(event.detail, kMaxSentenceBytes);
  cut(event.user, kMaxWhoBytes);
  cut(event.subject, kMaxWhoBytes);
  if (event.documents.size() > kMaxDocuments) event.documents.resize(kMaxDocuments);
  for (Event::Attachment& document : event.documents) {
    cut(document.name, kMaxWhoBytes);
    if (document.text.size() > kMaxDocumentBytes)
      document.text = fmt::format("{{\"left_out_bytes\": {}}}", document.text.size());
  }
  return event;
}

std::string history_json(const std::vector<Event>& events) {
  return write_form(Events{events}, describe);
}

std::string event_json(const Event& event) {
  std::string text = write_form(event, describe);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::vector<Event>> parse_history(const std::string& file, std::string_view text) {
  Events read = TRY(read_form<Events>(file, text, describe));
  return std::move(read.events);
}

std::string series_json(const Series& series) { return write_form(series, describe); }

Result<Series> parse_series(const std::string& file, std::string_view text) {
  return read_form<Series>(file, text, describe);
}

std::vector<DocumentKind> document_kinds() {
  return {
      document_kind<Events, describe, "History", "what happened on a node, newest first">(),
      document_kind<Series, describe, "Series", "one measured number over time">(),
  };
}

}  // namespace partita::history
