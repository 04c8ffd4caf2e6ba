#include "history/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/document.h"
#include "base/table.h"

namespace partita::history {
namespace {

constexpr std::size_t kMostSentences = 40;  // of one list

const char* verb(const Event& event) {
  switch (event.kind) {
    case EventKind::started:
      return "the agent started";
    case EventKind::stopped:
      return "the agent stopped";
    case EventKind::desired:
      return "wanted";
    case EventKind::proposed:
      return "proposed";
    case EventKind::approved:
      return "approved";
    case EventKind::rejected:
      return "rejected";
    case EventKind::applying:
      return "begun";
    case EventKind::step:
      return "step";
    case EventKind::applied:
      switch (event.outcome) {
        case Outcome::failed:
          return "failed";
        case Outcome::refused:
          return "refused";
        case Outcome::interrupted:
          return "interrupted";
        default:
          return event.change != 0 ? "applied" : "done";
      }
    case EventKind::repair:
      return "drift";
    case EventKind::health:
      return "health";
    case EventKind::notice:
      return "told";
    case EventKind::hook:
      return "hook";
    case EventKind::access:
      return "access";
  }
  return "";
}

// How a step or hook ended, where it is worth a word.
std::string ending(const Event& event) {
  const bool told = event.kind == EventKind::applied || event.outcome == Outcome::none ||
                    event.outcome == Outcome::succeeded;
  return told ? "" : fmt::format(" ({})", to_string(event.outcome));
}

double number_of(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->kind == Node::Kind::number ? found->number : 0;
}

std::string text_of(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr ? found->text : "";
}

// What a service asks for, where that is more than the plan is for.
double asked_for(const Node& service) {
  const double wanted = number_of(service, "wanted_rps");
  return wanted > 0 ? wanted : number_of(service, "rate_rps");
}

// "320 (32 %)": a part of what was asked for.
std::string planned_for(const Node& service) {
  const double rate = number_of(service, "rate_rps"), asked = asked_for(service);
  return asked > rate ? fmt::format("{:.6g} ({:.0f} %)", rate, 100 * rate / asked)
                      : fmt::format("{:.6g}", rate);
}

// The services of a plan with what they ask for and what they are planned for.
std::string plan_lines(const Node& plan) {
  const Node* services = plan.find("services");
  const Node* gpus = plan.find("gpus");
  if (services == nullptr || gpus == nullptr || services->items.empty()) return "";
  Table table{{"service", "asked req/s", "planned for", "carries", "SLO ms", "predicted ms"}, {}};
  for (const Node& one : services->items)
    table.rows.push_back({text_of(one, "name"), fmt::format("{:.6g}", asked_for(one)),
                          planned_for(one), fmt::format("{:.6g}", number_of(one, "planned_rps")),
                          fmt::format("{:.6g}", number_of(one, "slo_ms")),
                          fmt::format("{:.4g}", number_of(one, "predicted_latency_ms"))});
  return fmt::format("\nplan on {} GPUs\n{}", gpus->items.size(), to_string(table));
}

std::string affected_lines(const Node& change) {
  std::string lines;
  const Node* affected = change.find("affected_services");
  if (affected == nullptr) return lines;
  for (const Node& one : affected->items) {
    const double away = number_of(one, "unavailable_s"), below = number_of(one, "below_s");
    if (away <= 0 && below <= 0) continue;
    lines += fmt::format("  {}: {:.2f} s below its minimum, {:.2f} s without any capacity{}\n",
                         text_of(one, "name"), below, away,
                         text_of(one, "why").empty() ? "" : "; " + text_of(one, "why"));
  }
  return lines;
}

std::string change_lines(const Node& change) {
  const Node* create = change.find("create");
  const Node* destroy = change.find("destroy");
  const Node* keep = change.find("keep");
  const Node* move = change.find("move");
  if (create == nullptr || destroy == nullptr || keep == nullptr) return "";
  return fmt::format(
      "\nchange: {} instances kept, {} created, {} destroyed, {} of them moves; {:.1f} s "
      "predicted\n"
      "{}",
      keep->items.size(), create->items.size(), destroy->items.size(),
      move != nullptr ? move->items.size() : 0, number_of(change, "predicted_s"),
      affected_lines(change));
}

// Sentences that a document lists, and those of lists of objects with a sentence in them.
std::string sentences(const Node& document) {
  static constexpr std::array<std::pair<const char*, const char*>, 7> kLists{
      {{"explanation", "reasons"},
       {"lines", "reasons"},
       {"reasons", "reasons"},
       {"forecast", "forecast"},
       {"alternatives", "what else was considered"},
       {"rejected", "what else was considered"},
       {"violations", "what the judge objected to"}}};
  std::string text;
  for (const auto& [key, title] : kLists) {
    const Node* list = document.find(key);
    if (list == nullptr || list->kind != Node::Kind::list || list->items.empty()) continue;
    text += fmt::format("\n{}\n", title);
    for (std::size_t i = 0; i < std::min(list->items.size(), kMostSentences); ++i) {
      const Node& item = list->items[i];
      std::string line = item.text;
      for (const char* inner : {"text", "sentence", "why", "message", "name"}) {
        if (line.empty()) line = text_of(item, inner);
      }
      if (!line.empty()) text += fmt::format("  {}\n", line);
    }
    if (list->items.size() > kMostSentences)
      text += fmt::format("  ... and {} more\n", list->items.size() - kMostSentences);
  }
  return text;
}

// What the documents of all events say, the newest of each name.
std::string document_lines(const std::vector<Event>& events) {
  std::map<std::string, const std::string*> newest;
  for (const Event& event : events)
    for (const Event::Attachment& one : event.documents) newest[one.name] = &one.text;
  std::string text;
  for (const auto& [name, content] : newest) {
    const auto document = parse_document(name + ".json", *content);
    if (!document || document->root.kind != Node::Kind::object) continue;
    text += change_lines(document->root) + plan_lines(document->root) + sentences(document->root);
  }
  return text;
}

const Event* first_of(const std::vector<Event>& events, EventKind kind) {
  const auto found = std::ranges::find(events, kind, &Event::kind);
  return found == events.end() ? nullptr : &*found;
}

std::string state_word(const std::vector<Event>& events) {
  if (const Event* end = first_of(events, EventKind::applied))
    return end->outcome == Outcome::succeeded || end->outcome == Outcome::none ? "done"
                                                                               : verb(*end);
  if (first_of(events, EventKind::rejected) != nullptr) return "rejected";
  if (first_of(events, EventKind::applying) != nullptr) return "begun, and its end was not kept";
  if (first_of(events, EventKind::approved) != nullptr) return "approved, not yet begun";
  if (first_of(events, EventKind::proposed) != nullptr) return "proposed, not yet decided";
  return "not begun";
}

}  // namespace

std::string sentence(const Event& event) {
  std::string text = event.change != 0 ? fmt::format("change {} {}", event.change, verb(event))
                                       : std::string(verb(event));
  if (!event.subject.empty()) text += " " + event.subject;
  text += ending(event);
  const std::string& more = !event.detail.empty() ? event.detail : event.cause;
  if (!more.empty()) text += ": " + more.substr(0, more.find('\n'));
  return text;
}

std::string events_text(const std::vector<Event>& events, const TimeText& when) {
  if (events.empty()) return "nothing\n";
  Table table{{"when", "who", "what"}, {}};
  for (const Event& event : events)
    table.rows.push_back({when(event.time_ms), event.user, sentence(event)});
  return to_string(table);
}

std::string change_story(std::vector<Event> events, const std::vector<Event>& after,
                         const TimeText& when) {
  if (events.empty()) return "";
  std::ranges::sort(events, {}, &Event::id);
  std::string text = fmt::format("change {}: {}\n", events.front().change, state_word(events));
  for (const Event& event : events) {
    if (event.cause.empty()) continue;
    text += fmt::format("  why       {}\n", event.cause);
    break;
  }
  text += fmt::format("  asked by  {}, {}\n", events.front().user, when(events.front().time_ms));
  if (const Event* yes = first_of(events, EventKind::approved))
    text += fmt::format("  approved  by {}, {}\n", yes->user, when(yes->time_ms));
  if (const Event* no = first_of(events, EventKind::rejected))
    text += fmt::format("  rejected  by {}, {}{}\n", no->user, when(no->time_ms),
                        no->cause.empty() ? "" : ": " + no->cause);
  const Event* begin = first_of(events, EventKind::applying);
  const Event* end = first_of(events, EventKind::applied);
  if (begin != nullptr && end != nullptr)
    text += fmt::format("  took      {:.1f} s\n",
                        static_cast<double>(end->time_ms - begin->time_ms) / 1000);
  if (end != nullptr && !end->detail.empty()) text += fmt::format("  outcome   {}\n", end->detail);
  text += document_lines(events);
  text += "\nwhat happened\n" + events_text(events, when);
  if (!after.empty()) text += "\nwhat came after\n" + events_text(after, when);
  return text;
}

}  // namespace partita::history
