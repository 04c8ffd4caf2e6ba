#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/parse_number.h"
#include "decide/difference.h"
#include "decide/input.h"
#include "flags.h"
#include "history/event.h"
#include "history/text.h"
#include "past/past.h"
#include "server/remote.h"

namespace partita::cli {

namespace {

Result<std::vector<history::Event>> events_of(const Remote& remote, const std::string& query) {
  const auto answer = remote.client.call("history", "", "", query);
  if (!answer) return failed(answer.error());
  return history::parse_history("the server's answer", *answer);
}

// A side of a difference: `now`, the number of a change, or a file here.
Result<decide::Compared> side_there(const Remote& remote, const std::string& word,
                                    const char* flag) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  if (word == "now") {
    const auto answer = remote.client.call("node");
    if (!answer) return failed(answer.error());
    return decide::read_side("now", *answer, catalogue);
  }
  const auto number = parse_number<long>(word);
  if (!number || *number < 1 || remote.context.files.exists(word)) {
    const auto text = read_input(remote.context.files, flag, word);
    if (!text) return failed(text.error());
    return decide::read_side(word, *text, catalogue);
  }
  const std::string name = fmt::format("change {}", *number);
  const auto events = events_of(remote, fmt::format("change={}&most=1000", *number));
  if (!events) return failed(events.error());
  for (const char* wanted : {"plan", "state"})
    for (const history::Event& event : *events)
      for (const history::Event::Attachment& one : event.documents)
        if (one.name == wanted) return decide::read_side(name, one.text, catalogue);
  return bad_input(name, "the server keeps no plan and no state of it");
}

}  // namespace

Result<Exit> remote_diff(const Remote& remote) {
  if (remote.said.given("--file"))
    return bad_input("--file", "not with --server: it is the server's history that counts");
  const std::vector<std::string> words = remote.said.positionals();
  if (words.size() != 2) return bad_input("B", "name two things to compare");
  const auto a = side_there(remote, words[0], "A");
  if (!a) return failed(a.error());
  const auto b = side_there(remote, words[1], "B");
  if (!b) return failed(b.error());
  const auto found = decide::difference(*a, *b);
  if (!found) return failed(found.error());
  const auto shown = remote.show(decide::difference_json(*found), decide::difference_text(*found));
  if (!shown) return shown;
  return found->empty() ? Exit::done : Exit::no;
}

Result<Exit> remote_history(const Remote& remote) {
  for (const char* flag : {"--follow", "--file"})
    if (remote.said.given(flag))
      return bad_input(flag, "not with --server; GET /v1/events follows an agent");
  if (remote.said.all("--kind").size() > 1)
    return bad_input("--kind", "one kind at a time with --server");
  const bool json = remote.said.output().format == "json";
  std::string query = json ? "documents=true" : "documents=false";
  for (const auto& [flag, name] :
       {std::pair("--most", "most"), std::pair("--change", "change"), std::pair("--kind", "kind"),
        std::pair("--service", "subject"), std::pair("--user", "user")})
    if (remote.said.given(flag))
      query += fmt::format("&{}={}", name, api::percent_encoded(remote.said.text(flag)));
  if (remote.said.given("--since")) {
    const auto since = parse_duration("--since", remote.said.text("--since"));
    if (!since) return failed(since.error());
    query += fmt::format("&from_ms={:.0f}",
                         static_cast<double>(std::time(nullptr)) * 1e3 - since->value * 1e3);
  }
  auto events = events_of(remote, query);
  if (!events) return failed(events.error());
  const std::string document = history::history_json(*events);
  // As at the node: steps only of what is asked for.
  if (!remote.said.given("--steps") && !remote.said.given("--kind") &&
      !remote.said.given("--change"))
    std::erase_if(*events, [](const history::Event& event) {
      return event.kind == history::EventKind::step;
    });
  return remote.show(document, history::events_text(*events, local_time));
}

Result<Exit> remote_explain(const Remote& remote) {
  const std::vector<std::string> words = remote.said.positionals();
  std::string number = words.empty() ? std::string() : words.front();
  if (number.empty()) {
    const auto newest = events_of(remote, "documents=false");
    if (!newest) return failed(newest.error());
    const auto of_change =
        std::ranges::find_if(*newest, [](const history::Event& event) { return event.change > 0; });
    if (of_change == newest->end()) return bad_input("CHANGE", "no change has been kept yet");
    number = std::to_string(of_change->change);
  }
  const auto events =
      events_of(remote, fmt::format("change={}&most=1000", api::percent_encoded(number)));
  if (!events) return failed(events.error());
  if (events->empty())
    return bad_input("CHANGE", fmt::format("nothing is kept of a change {}", number));
  return remote.show(history::history_json(*events),
                     history::change_story(*events, {}, local_time));
}

}  // namespace partita::cli
