// partita history: what happened on a node.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "commands.h"
#include "flags.h"
#include "history/text.h"
#include "past/past.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kFollowNs = 500'000'000;
constexpr double kDaySeconds = 86'400, kLongestDays = 100'000;

struct HistoryFlags {
  PastFlags past;
  std::string since, service, user;
  std::vector<std::string> kinds;
  long change = 0;
  int most = 50;
  bool follow = false, steps = false;
  Output output;
};

// "2h" as other durations, and days: "7d".
Result<std::int64_t> ago_ms(const std::string& text) {
  if (text.ends_with('d')) {
    const auto days = parse_number<double>(std::string_view(text).substr(0, text.size() - 1));
    if (!days || !(*days > 0) || *days > kLongestDays)
      return bad_input("--since", fmt::format("'{}' is no number of days", text));
    return static_cast<std::int64_t>(*days * kDaySeconds * 1000);
  }
  const auto duration = TRY(parse_duration("--since", text));
  return static_cast<std::int64_t>(duration.value * 1000);
}

Result<history::EventQuery> query_of(const HistoryFlags& flags) {
  history::EventQuery query{.subject = flags.service, .user = flags.user, .most = flags.most};
  query.documents = flags.output.json();
  if (flags.change > 0) query.change = flags.change;
  for (const std::string& word : flags.kinds) {
    const auto kind = history::parse_kind(word);
    std::vector<std::string> words;
    for (const auto one : history::event_kinds()) words.emplace_back(history::to_string(one));
    if (!kind)
      return bad_input("--kind",
                       fmt::format("'{}' is no kind; there are {}", word, joined(words, ", ")));
    query.kinds.push_back(*kind);
  }
  // What people want to read first: steps only of what they ask for.
  const bool all = flags.steps || flags.output.json() || flags.change > 0;
  if (query.kinds.empty() && !all) {
    query.kinds = history::event_kinds();
    std::erase(query.kinds, history::EventKind::step);
  }
  if (!flags.since.empty()) {
    const auto ago = TRY(ago_ms(flags.since));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    query.from_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count() - ago;
  }
  return query;
}

// A line per event, the oldest first, as it happens.
Result<Exit> follow(Context& context, const HistoryFlags& flags, const Past& past,
                    history::EventQuery query) {
  StopRequest stop;
  bool first = true;
  while (true) {
    auto events = TRY(past.events(query));
    std::ranges::reverse(events);
    for (const history::Event& event : events)
      say(context, flags.output.json() ? history::event_json(event) + "\n"
                                       : fmt::format("{}  {}  {}\n", local_time(event.time_ms),
                                                     event.user, history::sentence(event)));
    // From now on everything: the newest kMaxRows at a time would leave out what came before them.
    if (!events.empty()) query.after = events.back().id;
    if (first) query.most = history::kMaxRows;
    first = false;
    if (stop.within(kFollowNs)) return Exit::done;
  }
}

Result<Exit> run_history(Context& context, const HistoryFlags& flags, const Past& past) {
  const auto query = TRY(query_of(flags));
  if (flags.follow && past.of_agent)
    return bad_input("--follow", "not with --server; GET /v1/events follows an agent");
  if (flags.follow) return follow(context, flags, past, query);
  const auto events = TRY(past.events(query));
  return finish(context, flags.output,
                flags.output.json() ? history::history_json(events)
                                    : history::events_text(events, local_time));
}

}  // namespace

Command add_history(CLI::App& app) {
  auto [command, flags] = adding<HistoryFlags>(
      app, "history",
      "Show what happened on this node, the newest first: who changed what, and why");
  flag(*command, "--since", flags->since);
  flag(*command, "--kind", flags->kinds, "applying, applied, step, proposed, repair, ...")
      ->delimiter(',');
  flag(*command, "--service", flags->service);
  flag(*command, "--user", flags->user);
  within(flag(*command, "--change", flags->change), 1, 9e15);
  within(flag(*command, "--most", flags->most), 1, history::kMaxRows)->capture_default_str();
  flag(*command, "--with-steps", flags->steps);
  flag(*command, "--follow", flags->follow);
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita history --since 2h\n"
      "partita history --kind applied,repair --format json");
  return about_past(command, flags, run_history);
}

}  // namespace partita::cli
