#include "past/past.h"

#include <array>
#include <ctime>

#include "base/url.h"
#include "commands.h"
#include "decide/difference.h"
#include "history/text.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

std::string asked_of(const history::EventQuery& query, int most) {
  std::string asked = fmt::format("documents={}&most={}", query.documents, most);
  const auto add = [&asked](const char* name, const auto& value) {
    asked += fmt::format("&{}={}", name, percent_encoded(fmt::format("{}", value)));
  };
  if (query.kinds.size() == 1) add("kind", history::to_string(query.kinds.front()));
  if (!query.subject.empty()) add("subject", query.subject);
  if (!query.user.empty()) add("user", query.user);
  if (query.change) add("change", *query.change);
  if (query.before) add("before", *query.before);
  if (query.after) add("after", *query.after);
  if (query.from_ms) add("from_ms", *query.from_ms);
  return asked;
}

// An agent is asked for one kind or for all, so that several are picked from the newest of all.
Result<std::vector<history::Event>> events_there(const api::Client& agent,
                                                 const history::EventQuery& query) {
  const bool several = query.kinds.size() > 1;
  const auto answer =
      TRY(agent.call("history", "", "", asked_of(query, several ? history::kMaxRows : query.most)));
  auto events = history::parse_history("the server's answer", answer);
  if (!events || !several) return events;
  std::erase_if(*events, [&](const history::Event& event) {
    return std::ranges::find(query.kinds, event.kind) == query.kinds.end();
  });
  if (std::ssize(*events) > query.most) events->erase(events->begin() + query.most, events->end());
  return events;
}

// partita compare A B: what differs between two plans, states or services, from files, from the
// history or from the node itself.

struct DiffFlags {
  std::string a, b;
  PastFlags past;
  Output output;
};

// What a change led to: its plan, else the state of the node after it.
Result<decide::Compared> side_of_change(const Past& past, long number,
                                        const hw::Catalogue& catalogue) {
  const auto events = TRY(past.events({.change = number, .most = history::kMaxRows}));
  const std::string name = fmt::format("change {}", number);
  for (const char* wanted : {"plan", "state"})
    for (const history::Event& event : events)
      for (const history::Event::Attachment& one : event.documents)
        if (one.name == wanted) return decide::read_side(name, one.text, catalogue);
  return bad_input(name, events.empty() ? "nothing is kept of it; `partita history` lists what is"
                                        : "no plan and no state is kept of it");
}

struct Side {
  const std::string& word;
  const char* flag;
};

Result<decide::Compared> side_of(Context& context, const Past& past, const Side& side,
                                 const hw::Catalogue& catalogue) {
  const auto number = parse_number<long>(side.word);
  if (number && *number > 0 && !context.files.exists(side.word))
    return side_of_change(past, *number, catalogue);
  const auto text =
      TRY(side.word == "now" ? past.node() : read_input(context.files, side.flag, side.word));
  return decide::read_side(side.word, text, catalogue);
}

Result<Exit> run_diff(Context& context, const DiffFlags& flags, const Past& past) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.past.device.catalogue));
  const auto a = TRY(side_of(context, past, {flags.a, "A"}, catalogue));
  const auto b = TRY(side_of(context, past, {flags.b, "B"}, catalogue));
  const auto found = TRY(decide::difference(a, b));
  return finish(
      context, flags.output,
      flags.output.json() ? decide::difference_json(found) : decide::difference_text(found),
      found.empty() ? Exit::done : Exit::no);
}

// partita explain: why a change of the node was made, and what came of it.

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

// partita history: what happened on a node.

constexpr std::int64_t kFollowNs = 500'000'000;
constexpr Seconds kLongestAgo{100'000 * 86'400.0};

struct HistoryFlags {
  PastFlags past;
  std::string since, service, user;
  std::vector<std::string> kinds;
  long change = 0;
  int most = 50;
  bool follow = false, steps = false;
  Output output;
};

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
    const auto ago = TRY(parse_duration("--since", flags.since, kLongestAgo));
    query.from_ms = wall_clock_ms() - static_cast<std::int64_t>(ago.value * 1000);
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

void add_past(CLI::App& command, PastFlags& flags) {
  takes(command, "--file", flags.file, "--state-dir", flags.state_dir);
  add_device_flags(command, flags.device);
}

Result<history::Store> open_past(Context& context, const PastFlags& flags) {
  std::string path = flags.file;
  if (path.empty()) {
    const auto directory = TRY(found_state_directory(context, flags.device, flags.state_dir));
    path = history::history_path(directory);
  }
  if (!context.files.exists(path)) {
    if (!flags.file.empty()) return bad_input("--file", path + ": there is no such file");
    return environment_error(path, "nothing has been kept of this node yet");
  }
  return history::Store::open(path, history::Access::read);
}

Past past_here(Context& context, const PastFlags& flags) {
  return {[&](const history::EventQuery& query) -> Result<std::vector<history::Event>> {
            const auto store = open_past(context, flags);
            return store ? store->events(query) : failed(store.error());
          },
          [&]() -> Result<std::string> {
            const OpenDriver opened = TRY(open_driver(context, flags.device));
            const device::NodeState state = TRY(device::read_node(*opened.driver));
            const std::string directory = state_directory(flags.state_dir, state);
            return device::state_json(state, load_occupants(context, directory));
          }};
}

Result<Past> past_of(const PastFlags& flags, const api::Client& agent) {
  if (!flags.file.empty())
    return bad_input("--file", "not with --server: it is the server's history that counts");
  return Past{[&agent](const history::EventQuery& query) { return events_there(agent, query); },
              [&agent] { return agent.call("node"); }, true};
}

std::string local_time(std::int64_t time_ms) {
  const std::time_t seconds = time_ms / 1000;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts) == 0)
    return fmt::format("{} ms", time_ms);
  return text.data();
}

Command add_diff(CLI::App& app) {
  auto [command, flags] = adding<DiffFlags>(
      app, "diff",
      "Compare two plans, states of a node or services; exit status 1 when they differ");
  const std::string what = "The number of a change, a file (plan, node state, services), or `now`";
  command->add_option("A", flags->a, what)->required();
  command->add_option("B", flags->b, what)->required();
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita compare 11 12\n"
      "partita compare plan.json now");
  return about_past(command, flags, run_diff);
}

Command add_explain(CLI::App& app) {
  auto [command, flags] = adding<ExplainFlags>(
      app, "explain",
      "Explain a change: why, what else was considered, who approved it, its steps");
  within(command->add_option(
             "CHANGE", flags->change,
             "Number of the change, as `partita history` shows it (default: the last one)"),
         1, 9e15);
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita explain 12");
  return about_past(command, flags, run_explain);
}

Command add_history(CLI::App& app) {
  auto [command, flags] = adding<HistoryFlags>(
      app, "history",
      "Show what happened on this node, the newest first: who changed what, and why");
  flag(*command, "--since", flags->since);
  flag(*command, "--kind", flags->kinds, "applying, applied, step, proposed, repair, ...")
      ->delimiter(',');
  takes(*command, "--service", flags->service, "--user", flags->user, "--change",
        limited(flags->change, 1, 9e15), "--most", within(flags->most, 1, history::kMaxRows),
        "--with-steps", flags->steps, "--follow", flags->follow);
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita history --since 2h\n"
      "partita history --kind applied,repair --format json");
  return about_past(command, flags, run_history);
}

}  // namespace partita::cli
