// A history for people: a table of events, and why a change was made. Pure: how a time reads is the
// caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "history/event.h"

namespace partita::history {

using TimeText = std::function<std::string(std::int64_t time_ms)>;

// What happened, in a sentence: "change 3 applied: 3 steps in 2.1 s".
std::string sentence(const Event& event);

// A line per event, in the order given.
std::string events_text(const std::vector<Event>& events, const TimeText& when);

// One change from the events that belong to it (any order): what led to it, what it was meant for,
// what else was considered, who approved it, its steps, how it ended; and what came `after` it.
// What their documents say is told where it is understood: plans, changes, and lists of sentences
// under `explanation`, `alternatives`, `rejected`, `reasons`, `violations`.
std::string change_story(std::vector<Event> events, const std::vector<Event>& after,
                         const TimeText& when);

}  // namespace partita::history
