// partita explain: why a change of the node was made, and what came of it.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "flags.h"
#include "history/text.h"
#include "past/past.h"

namespace partita::cli {
namespace {

constexpr int kAfter = 5;  // events that are told of what came after

struct ExplainFlags {
  PastFlags past;
  long change = 0;  // 0: the last
  Output output;
};

// The number of the newest change that there is.
Result<long> last_change(const Past& past) {
  history::EventQuery query{.kinds = {history::EventKind::proposed, history::EventKind::applying,
                                      history::EventKind::applied},
                            .most = 20,
                            .documents = false};
  const auto events = TRY(past.events(query));
  for (const history::Event& event : events)
    if (event.change > 0) return event.change;
  return bad_input("CHANGE", "no change has been kept yet");
}

// The first few events after this one that belong to other changes or to none, oldest first.
Result<std::vector<history::Event>> events_after(const Past& past, const history::Event& last) {
  std::vector<history::Event> after;
  // Ids are close together, so a window of them holds the first few.
  for (long from = last.id; after.size() < kAfter; from += history::kMaxRows) {
    history::EventQuery query{.before = from + history::kMaxRows + 1,
                              .after = from,
                              .most = history::kMaxRows,
                              .documents = false};
    auto found = TRY(past.events(query));
    std::ranges::reverse(found);
    for (history::Event& event : found)
      if (event.change != last.change && after.size() < kAfter) after.push_back(std::move(event));
    if (found.empty()) break;
  }
  return after;
}

Result<Exit> run_explain(Context& context, const ExplainFlags& flags, const Past& past) {
  const auto number = TRY(flags.change > 0 ? Result<long>(flags.change) : last_change(past));
  const auto events = TRY(past.events({.change = number, .most = history::kMaxRows}));
  if (events.empty())
    return bad_input("CHANGE", fmt::format("nothing is kept of a change {}; `partita history` "
                                           "lists those that are",
                                           number));
  const auto after = TRY(events_after(past, events.front()));
  return finish(context, flags.output,
                flags.output.json() ? history::history_json(events)
                                    : history::change_story(events, after, local_time));
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto [command, flags] = adding<ExplainFlags>(
      app, "explain",
      "Explain a change: why, what else was considered, who approved it, its steps");
  within(command->add_option("CHANGE", flags->change,
                             "Its number, as `partita history` shows it; without: the last one"),
         1, 9e15);
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita explain 12");
  return about_past(command, flags, run_explain);
}

}  // namespace partita::cli
