#include "history/event.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/source_text.h"

namespace partita::history {
namespace {

std::string some_text(Rng& rng) {
  static constexpr const char* kPieces[] = {"a", "\"", "\\", "\n", "\t", "é", "漢", "{}", " ", "'"};
  std::string text;
  for (auto n = rng.below(8); n > 0; --n) text += kPieces[rng.below(std::size(kPieces))];
  return text;
}

Event some_event(Rng& rng, long id) {
  Event event{.id = id,
              .time_ms = static_cast<std::int64_t>(rng.below(4'000'000'000'000)),
              .kind = static_cast<EventKind>(rng.below(event_kinds().size())),
              .change = static_cast<long>(rng.below(5)),
              .user = "u" + some_text(rng),
              .cause = some_text(rng),
              .subject = some_text(rng),
              .outcome = static_cast<Outcome>(rng.below(5)),
              .detail = some_text(rng)};
  for (auto n = rng.below(3); n > 0; --n)
    event.documents.push_back({"d" + some_text(rng), some_text(rng)});
  return event;
}

TEST(Event, EveryWordIsReadBack) {
  EXPECT_EQ(event_kinds().size(), 14U);
  for (const EventKind kind : event_kinds()) EXPECT_EQ(parse_kind(to_string(kind)), kind);
  for (int o = 0; o < 5; ++o) {
    const auto outcome = static_cast<Outcome>(o);
    EXPECT_EQ(parse_outcome(to_string(outcome)), outcome);
  }
  EXPECT_EQ(to_string(EventKind::access), std::string("access"));
  EXPECT_EQ(to_string(Outcome::interrupted), std::string("interrupted"));
  EXPECT_FALSE(parse_kind("apply"));
  EXPECT_FALSE(parse_outcome(""));
}

TEST(Event, HistoriesAreReadAsTheyWereWritten) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Event> events;
    const auto count = static_cast<long>(rng.below(5));
    for (long id = count; id > 0; --id) events.push_back(some_event(rng, id));
    const auto again = parse_history("h.json", history_json(events));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, events);
    if (events.empty()) continue;
    const std::string one = event_json(events[0]);
    EXPECT_EQ(one.find('\n'), one.npos);
    EXPECT_NE(history_json(events).find(one), one.npos);
  }
}

std::string refusal(const std::string& events) {
  const auto read = parse_history(
      "h.json",
      "{\"api_version\": \"partita/v1\", \"kind\": \"History\",\n\"events\": [" + events + "]}");
  return read ? "" : to_string(read.error());
}

TEST(Event, RefusesWithTheLine) {
  EXPECT_EQ(refusal(""), "");
  EXPECT_NE(refusal(R"({"time_ms": 1, "kind": "step", "user": ""})").find("h.json:2"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"time_ms": 1, "kind": "steps", "user": "x"})").find("h.json:2"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"time_ms": 1.5, "kind": "step", "user": "x"})"), "");
  EXPECT_NE(refusal(R"({"id": -1, "time_ms": 1, "kind": "step", "user": "x"})"), "");
  EXPECT_NE(refusal(R"({"id": 1, "time_ms": 1, "kind": "step", "user": "x"},
                       {"id": 2, "time_ms": 1, "kind": "step", "user": "x"})")
                .find("newest"),
            std::string::npos);
}

TEST(Event, SeriesAreReadAsTheyWereWrittenAndMayNotOverlap) {
  Series series{"rate_rps", "chat", {{0, 60'000, 3, 1.5, 1, 2}, {60'000, 0, 1, 0.1, 0.1, 0.1}}};
  const auto again = parse_series("s.json", series_json(series));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, series);
  series.buckets[1].from_ms = 59'999;
  EXPECT_FALSE(parse_series("s.json", series_json(series)));
}

TEST(Event, IsMadeToFit) {
  Event event{.user = "x", .cause = std::string(kMaxSentenceBytes, 'c')};
  EXPECT_EQ(fitted(event), event);
  event.cause += "é";
  event.subject = std::string(kMaxWhoBytes - 4, 's') + "漢字";  // a character across the cut
  event.documents = {{"plan", std::string(kMaxDocumentBytes + 1, ' ')}};
  event.documents.resize(kMaxDocuments + 3, {"more", "{}"});
  const Event small = fitted(event);
  EXPECT_EQ(small.cause, std::string(kMaxSentenceBytes - 3, 'c') + "...");
  EXPECT_EQ(small.subject, std::string(kMaxWhoBytes - 4, 's') + "...");
  EXPECT_EQ(small.documents.size(), kMaxDocuments);
  EXPECT_EQ(small.documents[0].text, "{\"left_out_bytes\": 1048577}");
  EXPECT_EQ(fitted(small), small);
}

// The example below that heading of docs/formats.md.
std::string example_of(const std::string& heading) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```json\n";
  const auto begin = text.find(open, text.find("\n## " + heading + "\n")) + open.size();
  return text.substr(begin, text.find("```\n", begin) - begin);
}

TEST(Event, TheDocumentedExamplesAreReadAndWrittenAsTheyStand) {
  const auto series = parse_series("formats.md", example_of("Series"));
  ASSERT_TRUE(series) << to_string(series.error());
  EXPECT_EQ(series_json(*series), example_of("Series"));
  const std::string example = example_of("History");
  const auto events = parse_history("formats.md", example);
  ASSERT_TRUE(events) << to_string(events.error());
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ(events->at(1).documents.at(0).name, "plan");
  EXPECT_EQ(history_json(*events), example);
}

}  // namespace
}  // namespace partita::history
